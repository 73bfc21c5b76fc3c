"""Locks between processes: who has to wait for another says so."""

import contextlib
import fcntl
import sys
from collections.abc import Iterator

__all__ = ["locked"]


@contextlib.contextmanager
def locked(file, what) -> Iterator[None]:
    """Holds the lock of `file`, an empty file that stays.

    Whoever has to wait says so on stderr.

    Parameters
    ----------
    file : Path
        In a folder that exists.
    what : str
        What the other process is doing with the lock, e.g. "builds the simulation".
    """
    with open(file, "w", encoding="utf-8") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"waiting for another process that {what} (it holds {file})", file=sys.stderr, flush=True)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
