"""Where files are: the checkout, if this is one, and the folder of everything that is built."""

from pathlib import Path

import platformdirs

__all__ = ["BUILD", "CHECKOUT", "PACKAGE"]

PACKAGE = Path(__file__).resolve().parent
"""The package's folder."""


def _checkout():
    """The checkout that this package is part of; None if it was installed from a wheel."""
    top = PACKAGE.parent
    return top if (top / "pyproject.toml").is_file() and (top / "rtl" / "isa.py").is_file() else None


CHECKOUT = _checkout()
"""The checkout's folder, or None outside of one."""

BUILD = CHECKOUT / "build" if CHECKOUT else Path(platformdirs.user_cache_dir("bertha", appauthor=False))
"""Builds, caches and reports: `build/` in a checkout, the user's cache folder otherwise."""
