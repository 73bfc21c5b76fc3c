"""Notices that a program can't go on."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.control.sequencer import ENGINES
from bertha.rtl.isa import FaultReason
from bertha.rtl.signatures import INDEX_BITS, FaultSignature

__all__ = ["Watchdog"]


class Watchdog(wiring.Component):
    """Faults with DEADLOCK on every engine that waits when nothing has moved for `CYCLES` cycles.

    Ports
    -----
    running : In(1)
    idle, waiting, active : In(1) x 4
        Of the engines, in the order of `ENGINES`.
    progress : In(1)
        Something else moves: a grant, a post, a dispatch, a fetch.
    index : In x 4
        The command that each engine would be waiting with.
    fault : Out(FaultSignature) x 4
    """

    CYCLES = 256

    running: In(1)
    idle: In(1).array(len(ENGINES))
    waiting: In(1).array(len(ENGINES))
    active: In(1).array(len(ENGINES))
    progress: In(1)
    index: In(INDEX_BITS).array(len(ENGINES))
    fault: Out(FaultSignature).array(len(ENGINES))

    def elaborate(self, platform) -> Module:
        m = Module()
        count = Signal(range(self.CYCLES))
        stuck, expired = Signal(), Signal()
        held = [
            idle | (waiting & ~active) for idle, waiting, active in zip(self.idle, self.waiting, self.active)
        ]
        m.d.sync += stuck.eq(self.running & Cat(held).all() & Cat(self.waiting).any() & ~self.progress)
        m.d.comb += expired.eq(stuck & (count == self.CYCLES - 1))
        with m.If(stuck & ~expired):
            m.d.sync += count.eq(count + 1)
        with m.Else():
            m.d.sync += count.eq(0)
        for fault, waiting, index in zip(self.fault, self.waiting, self.index):
            m.d.comb += [
                fault.valid.eq(expired & waiting),
                fault.payload.reason.eq(FaultReason.DEADLOCK),
                fault.payload.index.eq(index),
            ]
        return m
