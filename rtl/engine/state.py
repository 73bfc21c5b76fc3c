"""What an engine says of itself to the cycle counters."""

from amaranth.lib import enum

from bertha.rtl.counters.classes import CycleClass

__all__ = ["EngineState"]


class EngineState(enum.Enum, shape=3):
    """What holds at the front of an engine, where it takes what it works on; values as of `CycleClass`.

    It is told a cycle later, as all that a border tells. Waits, the queue and what only drains behind an
    empty front are no part of it: `bertha.rtl.engine.signatures.ControlSide` has these.
    """

    NOTHING = 0
    """No command in work needs the front."""
    FILLING = CycleClass.FILLING.value
    WORKING = CycleClass.WORKING.value
    SCRATCHPAD = CycleClass.SCRATCHPAD.value
    DRAM_READ = CycleClass.DRAM_READ.value
    DRAM_WRITE = CycleClass.DRAM_WRITE.value
