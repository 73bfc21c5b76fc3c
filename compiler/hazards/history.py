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
        self._written = {name: np.zeros((len(ENGINES), size), np.int32) for name, size in sizes.items()}
        self._read = {name: np.zeros((COMPONENTS, size), np.int32) for name, size in sizes.items()}

    def required(self, access, engine) -> np.ndarray:
        """The clock that `access` needs, and that of the writers alone.

        Statistics that the GEMM engine continues are its own, in order, and need nothing from it.
        """
        needed = np.zeros(COMPONENTS, np.int32)
        place = slice(access.first, access.end)
        needed[: len(ENGINES)] = self._written[access.space][:, place].max(axis=1, initial=0)
        if access.write:
            np.maximum(needed, self._read[access.space][:, place].max(axis=1, initial=0), out=needed)
        if access.space == Space.STATISTICS and engine == Engine.GEMM:
            needed[component_of(Engine.GEMM)] = needed[OPERANDS] = 0
        return needed

    def record(self, access, engine, number) -> None:
        """Tile `number` of `engine` does `access`."""
        place = slice(access.first, access.end)
        if access.write:
            self._written[access.space][component_of(engine), place] = number + 1
        else:
            component = OPERANDS if access.operand else component_of(engine)
            self._read[access.space][component, place] = number + 1

    def written(self, access) -> np.ndarray:
        """For each place of an access, whether anything has written it."""
        return self._written[access.space][:, access.first : access.end].any(axis=0)
