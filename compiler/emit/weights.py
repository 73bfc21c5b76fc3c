"""Streams weight panels through a ring of scratchpad lines."""

from collections import deque

from bertha.compiler.layout.image import WeightPanel

__all__ = ["WeightStream"]


class WeightStream:
    """Loads panels in the order of their use, each as soon as the ring has room for it.

    A panel's LOAD stands in the program right behind the command that made room for it, which is as early as a
    program that is legal in program order can have it.

    Parameters
    ----------
    panels : list of WeightPanel
        All that will be used, in order.
    first, lines : int
        The ring.
    load : callable
        Called with a panel and a line: adds the LOAD to the program.
    """

    def __init__(self, panels, *, first, lines, load):
        self._waiting = deque(panels)
        self._first, self._lines = first, lines
        self._load = load
        self._held = deque()  # (panel, place, lines), oldest first
        self._unused = 0  # of those held, the last ones, that weren't taken yet

    def load_next(self) -> bool:
        """Add the LOAD of the next panel if there is room; whether there was."""
        if not self._waiting:
            return False
        place = self._place(self._waiting[0].lines)
        if place is None:
            return False
        panel = self._waiting.popleft()
        self._held.append((panel, place, panel.lines))
        self._unused += 1
        self._load(panel, self._first + place)
        return True

    def take(self) -> tuple[WeightPanel, int]:
        """The next panel and the line it starts at."""
        if not self._unused and not self.load_next():
            raise RuntimeError("a weight panel is wanted, but the ring has no room for it")
        panel, place, _ = self._held[-self._unused]
        self._unused -= 1
        return panel, self._first + place

    def release(self) -> None:
        """The oldest panel isn't used any more; its room is filled.

        Two loads at most: more would keep the dispatcher, which is in order, waiting for the load engine's
        queue, and what stands behind them would come late.
        """
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
