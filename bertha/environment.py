"""Makes the checkout's own environment, `.venv`: what every target of the Makefile does first.

A script that needs nothing but a Python, however old: `python3 bertha/environment.py [--exactly]`.
"""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

OLDEST = (3, 11)
THIS_VERSION = "{}.{}".format(*sys.version_info)
EXTRAS = "test,fpga"
CHECKOUT = Path(__file__).resolve().parents[1]
PROJECT = CHECKOUT / "pyproject.toml"
ENVIRONMENT = CHECKOUT / ".venv"
PYTHON = ENVIRONMENT / "bin" / "python"
MARK = ENVIRONMENT / "bertha.json"
"""Says that this script made the environment, for which place, Python and pyproject.toml; without `complete`
it was interrupted."""
OLD_MARK = ENVIRONMENT / "installed"  # of the Makefiles before this script


class Refused(Exception):
    """The environment can't be made; one sentence says why."""


def project() -> str:
    """The digest of what pyproject.toml asks for."""
    return hashlib.sha256(PROJECT.read_bytes()).hexdigest()


def version_of(python) -> str:
    """Version of a Python, such as 3.11; empty if there is none that runs."""
    command = [str(python), "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    try:
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    except OSError:
        return ""
    return result.stdout.decode().strip() if result.returncode == 0 else ""


def read_mark() -> dict:
    """What the environment's mark says; empty if it has none that can be read."""
    try:
        return dict(json.loads(MARK.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}


def unfit(mark, exactly) -> str:
    """Why the environment with this mark can't be used: a sentence, empty if it can.

    `exactly` demands the version of the Python that runs this; otherwise the one that made it is good.
    """
    if not mark.get("complete"):
        return "an earlier installation was interrupted"
    if mark.get("path") != str(ENVIRONMENT):
        return f"it was made as {mark.get('path')}"
    version = version_of(PYTHON)
    if version != mark.get("python"):
        return f"the Python {mark.get('python')} that made it is gone"
    if exactly and version != THIS_VERSION:
        return f"another Python, {version}, made it"
    return ""


def run(command) -> int:
    """Exit code of a command, run in the checkout."""
    return subprocess.run(command, cwd=str(CHECKOUT), check=False).returncode


def install(anew) -> None:
    """Installs what pyproject.toml asks for; `anew` begins with an empty environment."""
    pip = [str(PYTHON), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    steps = [[*pip, "--upgrade", "pip>=25.1"], [*pip, "--editable", f".[{EXTRAS}]"]]
    if anew:
        if ENVIRONMENT.is_symlink() or ENVIRONMENT.is_file():
            ENVIRONMENT.unlink()
        shutil.rmtree(str(ENVIRONMENT), ignore_errors=True)
        ENVIRONMENT.mkdir()
        # The Python below this one, if this is that of the environment that goes.
        python = getattr(sys, "_base_executable", sys.executable)
        steps.insert(0, [python, "-m", "venv", str(ENVIRONMENT)])
    MARK.write_text("{}\n", encoding="utf-8")
    for step in steps:
        if run(step) != 0:
            raise Refused(f"installing into .venv failed: {' '.join(step)}")
    mark = {"complete": True, "path": str(ENVIRONMENT), "python": version_of(PYTHON), "project": project()}
    MARK.write_text(json.dumps(mark, indent=1) + "\n", encoding="utf-8")


def ensure(exactly) -> None:
    """Makes the environment, unless it is good as it is."""
    if sys.version_info[:2] < OLDEST:
        need = "{}.{}".format(*OLDEST)
        raise Refused(f"Bertha needs Python {need} or newer, not {THIS_VERSION}: say make PYTHON=<another>")
    with open(str(PROJECT), encoding="utf-8") as file:  # locked, since every checkout has it
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            print("waiting for another process, which installs into .venv", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        if not os.path.lexists(str(ENVIRONMENT)):
            print("installing into .venv (a few minutes the first time)", flush=True)
            install(anew=True)
            return
        if not MARK.exists() and not OLD_MARK.exists():
            raise Refused(".venv is none that make has made, and is left alone: move it away, and try again")
        mark = read_mark()
        reason = unfit(mark, exactly)
        if reason:
            print(f"installing into .venv anew (a few minutes): {reason}", flush=True)
            install(anew=True)
        elif mark["project"] != project():
            print("installing into .venv what has changed in pyproject.toml", flush=True)
            install(anew=False)


def main() -> int:
    try:
        ensure("--exactly" in sys.argv[1:])
    except Refused as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
