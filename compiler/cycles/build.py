"""Compiles the cycle model with the C++ compiler, once, and keeps it by a hash of what it is made of."""

import ctypes
import functools
import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

from bertha.errors import ToolError
from bertha.folders import BUILD

__all__ = ["library"]

_NATIVE = Path(__file__).resolve().parent / "native"
_FLAGS = ["-std=c++17", "-O3", "-DNDEBUG", "-shared", "-fPIC", "-fno-semantic-interposition"]


@functools.cache
def library() -> ctypes.CDLL:
    """The compiled model.

    Raises
    ------
    ToolError
        If there is no C++ compiler, or it fails.
    """
    compiler = os.environ.get("CXX", "g++")
    digest = hashlib.sha256(" ".join([compiler, *_FLAGS]).encode())
    for source in sorted(_NATIVE.iterdir()):
        digest.update(source.read_bytes())
    folder = BUILD / "cycles"
    target = folder / f"model-{digest.hexdigest()[:16]}.so"
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            # Moved into place when it is whole, so processes that compile at the same time don't disturb each other.
            made = Path(scratch) / target.name
            _compile([compiler, *_FLAGS, "-o", str(made), str(_NATIVE / "chip.cpp")])
            os.replace(made, target)
    return ctypes.CDLL(str(target))


def _compile(command):
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        raise ToolError(f"the cycle model needs the C++ compiler {command[0]}: {error.strerror}") from None
    if done.returncode:
        raise ToolError(f"compiling the cycle model failed:\n{done.stderr.strip()}")
