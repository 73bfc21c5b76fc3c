"""Counts what a program takes."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.control.sequencer import ENGINES

__all__ = ["Counters"]


class Counters(wiring.Component):
    """Cycles of a program, busy cycles of its engines, and its dispatched commands.

    Ports
    -----
    start : In(1)
        Sets all to zero.
    counting : In(1)
    active : In(1) x 4
    dispatched : In(1)
    cycles : Out(64)
    busy : Out(32) x 4
        In the order of `ENGINES`.
    commands : Out(32)
    """

    start: In(1)
    counting: In(1)
    active: In(1).array(len(ENGINES))
    dispatched: In(1)
    cycles: Out(64)
    busy: Out(32).array(len(ENGINES))
    commands: Out(32)

    def elaborate(self, platform) -> Module:
        m = Module()
        counts = [
            (self.cycles, self.counting),
            (self.commands, self.counting & self.dispatched),
            *((busy, self.counting & active) for busy, active in zip(self.busy, self.active)),
        ]
        for counter, event in counts:
            with m.If(self.start):
                m.d.sync += counter.eq(0)
            with m.Elif(event):
                m.d.sync += counter.eq(counter + 1)
        return m
