"""Notices that a program can't go on."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.isa import FaultReason
from bertha.rtl.signatures import INDEX_BITS, FaultSignature

__all__ = ["Watchdog"]


class Watchdog(wiring.Component):
    """Faults with DEADLOCK on every engine that waits when nothing else is under way for `CYCLES` cycles.

    Ports
    -----
    running : In(1)
    idle : In(1) x engines
        As in `ControlSide`.
    blocked : In(1) x engines
        The engine waits for units and has nothing else to do.
    index : In x engines
        The command that it waits with.
    progress : In(1)
        Something else moves: a grant, a post, a dispatch, a fetch.
    fault : Out(FaultSignature) x engines

    Parameters
    ----------
    engines : int
    """

    CYCLES = 256

    def __init__(self, engines):
        super().__init__(
            {
                "running": In(1),
                "idle": In(1).array(engines),
                "blocked": In(1).array(engines),
                "index": In(INDEX_BITS).array(engines),
                "progress": In(1),
                "fault": Out(FaultSignature).array(engines),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        count = Signal(range(self.CYCLES))
        stuck, expired = Signal(), Signal()
        blocked = Cat(self.blocked)
        m.d.sync += stuck.eq(self.running & (Cat(self.idle) | blocked).all() & blocked.any() & ~self.progress)
        m.d.comb += expired.eq(stuck & (count == self.CYCLES - 1))
        with m.If(stuck & ~expired):
            m.d.sync += count.eq(count + 1)
        with m.Else():
            m.d.sync += count.eq(0)
        for fault, is_blocked, index in zip(self.fault, self.blocked, self.index):
            m.d.comb += [
                fault.valid.eq(expired & is_blocked),
                fault.payload.reason.eq(FaultReason.DEADLOCK),
                fault.payload.index.eq(index),
            ]
        return m
