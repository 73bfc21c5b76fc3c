"""What comes some GEMM commands later, so that the array doesn't wait for the results that it needs."""

import heapq
from itertools import count

__all__ = ["Lag"]


class Lag:
    """Emits what has been put off, in order, when so many GEMM commands have followed."""

    def __init__(self):
        self._waiting = []
        self._order = count()
        self._commands = 0

    def step(self) -> None:
        """A GEMM command of the model's own has been emitted."""
        self._commands += 1
        self._emit(self._commands)

    def after(self, commands, emit) -> None:
        """Call `emit` when so many commands have followed; at once for 0."""
        heapq.heappush(self._waiting, (self._commands + commands, next(self._order), emit))
        self._emit(self._commands)

    def flush(self) -> None:
        """Emit all that waits."""
        while self._waiting:
            self._emit(self._waiting[0][0])

    def _emit(self, due):
        while self._waiting and self._waiting[0][0] <= due:
            heapq.heappop(self._waiting)[2]()
