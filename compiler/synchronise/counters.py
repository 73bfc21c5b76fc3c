"""How far each semaphore could count, whatever the engines' speeds."""

from bisect import bisect_right
from collections import defaultdict

from bertha.compiler.hazards.history import OPERANDS, component_of
from bertha.rtl.isa import Engine

__all__ = ["MOST_UNITS", "Counters"]

MOST_UNITS = 255


class Counters:
    """Follows steps (`bertha.compiler.synchronise.synchronise`) in program order.

    A unit has surely been taken if the poster knows that the tile which takes it is done (or, of a GEMM, that its
    operands are read), or if a barrier came between.

    Attributes
    ----------
    posted : dict
        Units posted so far, by stream.
    """

    def __init__(self):
        self.posted = defaultdict(int)
        self._surely = defaultdict(int)  # taken before the last barrier, by stream
        self._tiles = defaultdict(list)  # tiles that take units, by stream, and how many are taken then
        self._totals = defaultdict(list)

    def full_streams(self, step) -> list:
        """Streams that this step could make count too far."""
        full = []
        for stream, tiles in _posts(step):
            for number, tile in enumerate(tiles):
                if self.posted[stream] + number + 1 - self._taken(stream, step.clocks[tile]) > MOST_UNITS:
                    full.append(stream)
                    break
        return full

    def post(self, step) -> None:
        """The step posts."""
        for stream, tiles in _posts(step):
            self.posted[stream] += len(tiles)

    def take(self, step, taken) -> None:
        """The step takes units: `taken` are then all by stream."""
        for stream in {event[0] for event in (*step.once, *step.each)}:
            # Of what is taken tile by tile, all counts as taken by the last one.
            tile = step.first + (step.command.tiles - 1 if step.each else 0)
            self._tiles[stream].append(tile)
            self._totals[stream].append(taken[stream])

    def barrier(self, taken) -> None:
        """All engines are idle: what was taken is known to be."""
        self._surely.update(taken)

    def _taken(self, stream, clock):
        waiter = stream[2]
        done = int(clock[component_of(waiter)])
        if waiter == Engine.GEMM:
            done = max(done, int(clock[OPERANDS]))
        position = bisect_right(self._tiles[stream], done - 1)
        return max(self._surely[stream], self._totals[stream][position - 1] if position else 0)


def _posts(step):
    """Streams that a step posts to, and the tiles that do."""
    last = step.command.tiles - 1
    for stream, wanted in step.posts.values():
        yield stream, [last] if wanted == {last} else list(range(last + 1))
