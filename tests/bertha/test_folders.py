"""Where builds go, and what is said when they can't go there."""

import os
import subprocess
import sys

import pytest

from bertha import folders
from bertha.cli import main


def test_a_checkout_builds_in_its_build_folder():
    assert folders.BUILD == folders.CHECKOUT / "build"
    assert (folders.CHECKOUT / "rtl" / "isa.py").is_file()


def test_an_installed_package_builds_in_the_users_cache(tmp_path):
    (tmp_path / "bertha").mkdir()
    (tmp_path / "bertha" / "folders.py").write_text((folders.PACKAGE / "folders.py").read_text())
    command = (
        "import sys; sys.path.insert(0, sys.argv[1]); import folders; print(folders.CHECKOUT, folders.BUILD)"
    )
    output = subprocess.check_output(
        [sys.executable, "-c", command, str(tmp_path / "bertha")],
        env=os.environ | {"XDG_CACHE_HOME": str(tmp_path / "a cache")},
        text=True,
    )
    assert output == f"None {tmp_path}/a cache/bertha\n"


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("bertha.commands.verilog", ["verilog", "--preset", "tiny4"]),
        ("bertha.commands.scalesim", ["scalesim"]),
        ("bertha.fpga.report", ["fpga", "report", "--preset", "tiny4", "--component", "row_slots"]),
        ("bertha.sim.prepare", ["sim", "--model", "reduced", "--preset", "tiny4", "--seq", "4"]),
    ],
)
@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
def test_a_file_in_the_place_of_the_build_folder_is_one_sentence(
    module, arguments, tmp_path, monkeypatch, capsys
):
    build = tmp_path / "build"
    build.write_text("a file")
    monkeypatch.setattr(f"{module}.BUILD", build)
    assert main(arguments) == 2
    errors = capsys.readouterr().err
    assert errors.count("\n") == 1
    assert errors.startswith(f"error: {build}") and "can't be used" in errors
    assert build.read_text() == "a file"
