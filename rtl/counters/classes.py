"""The classes of cycles, declared once: hardware, driver, reports and documents come from them."""

from amaranth.lib import enum

from bertha.rtl.isa import Engine

__all__ = ["ARRAY", "COUNT_BITS", "SEMAPHORE", "CycleClass", "count_select", "semaphore_class"]

COUNT_BITS = 32
"""Counts wrap, as the sum of an engine's classes does: it is `cycles` modulo 2**32."""
ARRAY = Engine.GEMM
"""The engine whose waits are attributed to what the engine that it waits for is in."""
SEMAPHORE = 8
"""Added to an engine's number it is the class of waiting for a semaphore that the engine posts to."""


class CycleClass(enum.Enum, shape=4):
    """What an engine is in, in one cycle. docs/architecture.md says when each of them holds."""

    IDLE = 0
    """Nothing to do, and all of the program's commands have been dispatched."""
    COMMAND = 1
    """Nothing to do, and commands of the program are still to be dispatched."""
    FILLING = 2
    """Filling or draining: something is on its way through the engine, and nothing holds it up."""
    WORKING = 3
    SCRATCHPAD = 4
    """Held up by an access that the scratchpad grants to others first, or by a line that is late for it."""
    DRAM_READ = 5
    DRAM_WRITE = 6
    SEMAPHORE_NOBODY = SEMAPHORE + Engine.SEQUENCER
    """Waiting for a semaphore that no command before posts to: no legal program does."""
    SEMAPHORE_LOAD = SEMAPHORE + Engine.LOAD
    SEMAPHORE_STORE = SEMAPHORE + Engine.STORE
    SEMAPHORE_GEMM = SEMAPHORE + Engine.GEMM
    SEMAPHORE_VECTOR = SEMAPHORE + Engine.VECTOR


def semaphore_class(engine) -> CycleClass:
    """The class of waiting for a semaphore that `engine` posts to."""
    return CycleClass(SEMAPHORE + engine)


def count_select(engine, cycle_class, *, root=False) -> int:
    """The value of the register `count_select` that chooses a count.

    Parameters
    ----------
    engine : Engine
        Whose cycles. With `root`, the engine that the array waited for.
    cycle_class : CycleClass
        The class that they were in.
    root : bool
        Cycles in which the array waited for a semaphore that `engine` posts to, by what `engine` was in.
    """
    return cycle_class.value | engine << 4 | root << 7
