"""A progress bar on a terminal, nothing elsewhere."""

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

__all__ = ["progress_bar"]


@contextlib.contextmanager
def progress_bar(file, what="running") -> Iterator[Callable[[int, int], None]]:
    """Gives a function to call with how much of how much is done; the bar goes away at the end.

    Parameters
    ----------
    file : text file
        Where the bar is shown, if that is a terminal.
    what : str
        What is being done.
    """
    console = Console(file=file)
    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
