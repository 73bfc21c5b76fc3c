"""Where each engine's cycles went, as the accelerator counted them."""

from dataclasses import dataclass

from bertha.rtl.counters.classes import ARRAY, CycleClass, count_select, semaphore_class
from bertha.rtl.isa import Engine

__all__ = ["ENGINES", "EngineCycles", "engine_cycles"]

ENGINES = tuple(engine for engine in Engine if engine is not Engine.SEQUENCER)
"""Those whose cycles are counted, in the order in which they are shown."""


@dataclass(frozen=True)
class EngineCycles:
    """A snapshot of the cycle counters. Names are those of `Engine` and `CycleClass`, in lower case.

    Attributes
    ----------
    cycles : int
        Of the program, when the snapshot was taken.
    classes : dict of str to dict of str to int
        By engine and class; an engine's classes add up to `cycles`, modulo 2**32.
    array_waits : dict of str to dict of str to int
        Cycles in which the array waited for a semaphore, by the engine that posts to it and the class that this
        engine was in. Those of engine X add up to `classes["gemm"]["semaphore_x"]`.
    """

    cycles: int
    classes: dict[str, dict[str, int]]
    array_waits: dict[str, dict[str, int]]


async def engine_cycles(driver) -> EngineCycles | None:
    """The last snapshot; None of an accelerator without cycle counters.

    Parameters
    ----------
    driver : bertha.runtime.driver.Driver
    """
    if not await driver.read("cycle_counters"):
        return None

    async def row(engine, *, root=False):
        counts = {}
        for cycle_class in CycleClass:
            await driver.write("count_select", count_select(engine, cycle_class, root=root))
            counts[cycle_class.name.lower()] = await driver.read("count")
        return counts

    classes = {engine.name.lower(): await row(engine) for engine in ENGINES}
    waits = classes[ARRAY.name.lower()]
    array_waits = {
        engine.name.lower(): await row(engine, root=True)
        if waits[semaphore_class(engine).name.lower()]
        else {cycle_class.name.lower(): 0 for cycle_class in CycleClass}
        for engine in ENGINES
    }
    return EngineCycles(await driver.read_wide("snapshot_cycles"), classes, array_waits)
