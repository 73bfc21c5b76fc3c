"""What measured figures depend on: a digest of sources, and the commit."""

import functools
import hashlib
import subprocess
from pathlib import Path

from bertha.folders import CHECKOUT

__all__ = ["commit", "source_digest"]

_SUFFIXES = (".py", ".h", ".cpp", ".sv", ".svh", ".vlt", ".mk")


@functools.cache
def source_digest(*packages) -> str:
    """A digest of all sources of some packages."""
    digest = hashlib.sha256()
    for package in packages:
        root = Path(package.__file__).parent
        for path in sorted(root.rglob("*")):
            if path.suffix in _SUFFIXES:
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@functools.cache
def commit() -> str | None:
    """The checkout's commit, with `+` if files differ from it; None outside of a checkout or without git."""
    if CHECKOUT is None:
        return None
    found = [_git("rev-parse", "--short", "HEAD"), _git("status", "--porcelain", "--untracked-files=no")]
    return None if None in found else found[0] + ("+" if found[1] else "")


def _git(*arguments):
    try:
        result = subprocess.run(["git", *arguments], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return result.stdout.strip()
