"""Counts what a program takes."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Counters"]


class Counters(wiring.Component):
    """Cycles of a program and busy cycles of its engines.

    Ports
    -----
    start : In(1)
        Sets all to zero.
    counting : In(1)
    active : In(1) x engines
    cycles : Out(64)
    busy : Out(32) x engines

    Parameters
    ----------
    engines : int
    """

    def __init__(self, engines):
        super().__init__(
            {
                "start": In(1),
                "counting": In(1),
                "active": In(1).array(engines),
                "cycles": Out(64),
                "busy": Out(32).array(engines),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        for counter, event in ((self.cycles, 1), *zip(self.busy, self.active)):
            with m.If(self.start):
                m.d.sync += counter.eq(0)
            with m.Elif(self.counting & event):
                m.d.sync += counter.eq(counter + 1)
        return m
