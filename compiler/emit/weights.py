"""Streams weight panels through a ring of scratchpad lines."""

from collections import deque

from bertha.compiler.layout.image import WeightPanel

__all__ = ["WeightStream"]


class WeightStream:
    """Loads panels in the order of their use, each as soon as the ring has room for it.

    A panel's LOAD stands in the program right behind the command that made room for it, which is as early as a
    program that is legal in program order can have it. Where a panel serves one tile only, commands would be a
    good part of what is read from DRAM; then neighbouring panels come and go together.

    Parameters
    ----------
    panels : list of WeightPanel
        All that will be used, in order.
    first, lines : int
        The ring.
    load : callable
        Called with panels (of equal size, equally far apart in DRAM) and a line: adds their LOAD to the program.
    together : int
        Most lines of panels that one LOAD brings, unless it's one panel.
    """

    def __init__(self, panels, *, first, lines, load, together=0):
        self._waiting = deque(_groups(panels, together))
        self._first, self._lines = first, lines
        self._load = load
        self._held = deque()  # [panels, place, lines], oldest first
        self._unused = deque()  # of those held, panels that weren't taken yet, and their lines
        self._released = 0  # of the oldest panels held

    def load_next(self) -> bool:
        """Add the LOAD of the next panels if there is room; whether there was."""
        if not self._waiting:
            return False
        group = self._waiting[0]
        lines = len(group) * group[0].lines
        place = self._place(lines)
        if place is None:
            return False
        self._waiting.popleft()
        self._held.append((group, place, lines))
        line = self._first + place
        self._unused.extend((panel, line + number * panel.lines) for number, panel in enumerate(group))
        self._load(group, line)
        return True

    def take(self) -> tuple[WeightPanel, int]:
        """The next panel and the line it starts at."""
        if not self._unused and not self.load_next():
            raise RuntimeError("a weight panel is wanted, but the ring has no room for it")
        return self._unused.popleft()

    def release(self) -> None:
        """The oldest panel isn't used any more; when all that came with it aren't either, their room is filled.

        Two loads at most: more would keep the dispatcher, which is in order, waiting for the load engine's
        queue, and what stands behind them would come late.
        """
        self._released += 1
        if self._released < len(self._held[0][0]):
            return
        self._released = 0
        self._held.popleft()
        if self.load_next():
            self.load_next()

    def _place(self, lines):
        if not self._held:
            return 0 if lines <= self._lines else None
        oldest = self._held[0][1]
        _, place, held_lines = self._held[-1]
        end = place + held_lines
        if place >= oldest:
            if end + lines <= self._lines:
                return end
            return 0 if lines <= oldest else None
        return end if end + lines <= oldest else None


def _groups(panels, most):
    """Neighbours that one LOAD can bring: of `most` lines in all, of equal size and equally far apart in DRAM."""
    group = []
    for panel in panels:
        fits = group and (len(group) + 1) * panel.lines <= most and panel.lines == group[0].lines
        if fits and len(group) > 1:
            fits = panel.address - group[-1].address == group[1].address - group[0].address
        if fits and panel.address > group[-1].address:
            group.append(panel)
            continue
        if group:
            yield group
        group = [panel]
    if group:
        yield group
