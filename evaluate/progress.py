"""Progress of what takes more than a few seconds, on stderr."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)

__all__ = ["Stages"]


class Stages:
    """One bar after another; where stderr is no terminal, a line at the start of each.

    Parameters
    ----------
    shown : bool
        False: nothing is shown.
    """

    def __init__(self, shown=True):
        self._console = Console(stderr=True, quiet=not shown)

    @contextmanager
    def stage(self, name, total=None) -> Iterator[Callable]:
        """What to call with the amount of `total` that is done; without a total it's just going on."""
        if not self._console.is_terminal:
            self._console.print(name, highlight=False, markup=False)
        progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        with progress:
            task = progress.add_task(name, total=total)
            yield lambda amount=1: progress.advance(task, amount)
