"""Shows how far a run is: a bar on a terminal, a line now and then elsewhere."""

import os
import time
from pathlib import Path

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

__all__ = ["PROGRESS_FILE", "SimulationProgress", "note_progress"]

PROGRESS_FILE = "progress"
_SECONDS_BETWEEN_LINES = 10


def note_progress(file, run, cycles) -> None:
    """Called where the simulation runs: replaces the note of how far it is."""
    draft = Path(f"{file}.new")
    draft.write_text(f"{run} {cycles}", encoding="ascii")
    os.replace(draft, file)


class SimulationProgress:
    """Shows what `note_progress` noted; `watch` is to be called now and then.

    Parameters
    ----------
    console : rich.console.Console
    file : Path
    cycles : list of int
        Expected for each run.
    what : str
        What a run is called.
    """

    def __init__(self, console, file, *, cycles, what):
        self._console, self._file, self._cycles, self._what = console, file, cycles, what
        self._start = self._last_line = time.monotonic()
        self._bar = Progress(
            TextColumn("simulating"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("simulating", total=sum(cycles), note="")
        file.unlink(missing_ok=True)

    def __enter__(self):
        self._bar.start()
        return self

    def __exit__(self, *error):
        self._bar.stop()

    def watch(self) -> None:
        """Looks at the note and shows it."""
        try:
            run, cycles = map(int, self._file.read_text(encoding="ascii").split())
        except FileNotFoundError:
            return
        done = sum(self._cycles[:run]) + min(cycles, self._cycles[run])
        total = sum(self._cycles)
        note = f"{cycles:,} cycles"
        if len(self._cycles) > 1:
            note = f"{self._what} {run + 1} of {len(self._cycles)}, {note}"
        now = time.monotonic()
        self._bar.update(self._task, completed=done, note=note)
        if not self._console.is_terminal and now - self._last_line >= _SECONDS_BETWEEN_LINES:
            self._last_line = now
            self._console.print(
                f"simulating: {100 * done / total:.0f} % ({note}) after {now - self._start:.0f} s",
                highlight=False,
            )
