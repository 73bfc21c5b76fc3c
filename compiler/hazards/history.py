"""Who touched what last, and what an engine may know about the others: the tools of happens-before.

Tiles of an engine are numbered (a command other than a GEMM is one tile). An engine's tiles start, have their
operands read and are done in this order; a later tile may start before an earlier one is done. So all that can
be known about an engine is two numbers: how many of its tiles are done, and of how many the operands are read.
A `clock` is a vector of these five (operands are told apart for GEMM only).
"""

import numpy as np

from bertha.compiler.hazards.accesses import Space
from bertha.rtl.isa import Engine

__all__ = ["COMPONENTS", "ENGINES", "OPERANDS", "History", "component_of"]

ENGINES = (Engine.LOAD, Engine.STORE, Engine.GEMM, Engine.VECTOR)
OPERANDS = len(ENGINES)
"""Component of a clock: GEMM tiles whose operands are read. The components before it count tiles done."""
COMPONENTS = len(ENGINES) + 1


def component_of(engine) -> int:
    """Component that counts the tiles of `engine` that are done."""
    return ENGINES.index(engine)


class History:
    """Last writers and readers of every place, as tile numbers plus one, by component.

    Parameters
    ----------
    sizes : dict
        Places of each space, by the names of `Space`.
    """

    def __init__(self, sizes):
        # Rows: the last writer of each engine, then the last reader of each component.
        rows = len(ENGINES) + COMPONENTS
        self._last = {name: np.zeros((rows, size), np.int32) for name, size in sizes.items()}

    def required(self, access, engine) -> np.ndarray:
        """The clock that `access` needs.

        Statistics that the GEMM engine continues are its own, in order, and need nothing from it.
        """
        last = self._last[access.space]
        if access.write:
            found = np.maximum.reduce(last[:, access.first : access.end], axis=1, initial=0)
            needed = found[len(ENGINES) :]
        else:
            found = np.maximum.reduce(last[: len(ENGINES), access.first : access.end], axis=1, initial=0)
            needed = np.zeros(COMPONENTS, np.int32)
        writers = needed[: len(ENGINES)]
        np.maximum(writers, found[: len(ENGINES)], out=writers)
        if access.space == Space.STATISTICS and engine == Engine.GEMM:
            needed[component_of(Engine.GEMM)] = needed[OPERANDS] = 0
        return needed

    def record(self, access, engine, number) -> None:
        """Tile `number` of `engine` does `access`."""
        row = component_of(engine)
        if not access.write:
            row = len(ENGINES) + (OPERANDS if access.operand else row)
        self._last[access.space][row, access.first : access.end] = number + 1
