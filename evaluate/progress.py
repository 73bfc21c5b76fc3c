"""Progress of what takes more than a few seconds, on stderr."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)

__all__ = ["Stage", "Stages"]


class Stage:
    """A bar.

    Parameters
    ----------
    progress : rich.progress.Progress
    name : str
    total : float, optional
        Of what `advance` adds up; without one nobody knows how long it takes.
    """

    def __init__(self, progress, name, total=None):
        self._progress, self._name = progress, name
        self._task = progress.add_task(escape(name), total=total)

    def advance(self, amount=1) -> None:
        """So much more is done."""
        self._progress.advance(self._task, amount)

    def say(self, line) -> None:
        """What is being done now."""
        self._progress.update(self._task, description=escape(f"{self._name}: {line}"))


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
    def stage(self, name, total=None) -> Iterator[Stage]:
        """A stage, which is over with the context."""
        if not self._console.is_terminal:
            self._console.print(name, highlight=False, markup=False)
        columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn()
        columns += TaskProgressColumn(), TimeElapsedColumn()
        hidden = not self._console.is_terminal
        with Progress(*columns, console=self._console, transient=True, disable=hidden) as progress:
            yield Stage(progress, name, total)
