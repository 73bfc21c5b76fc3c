"""Counts events by their number, with a snapshot that is read while counting goes on."""

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.counters.classes import COUNT_BITS

__all__ = ["ClassCounter"]


class ClassCounter(wiring.Component):
    """`depth` counters of which at most one counts in a cycle, in memory, and their snapshot.

    A snapshot holds what was counted up to and with its cycle. It is made by copying on writing: from
    then on, the first event of each number moves the old count into a second memory. So a snapshot costs
    no time, and both memories have one write a cycle. Counts wrap at 32 bits.

    Ports
    -----
    clear : In(1)
        All counts and the snapshot become zero; an event in this cycle isn't counted.
    snapshot : In(1)
    enable : In(1)
        An event.
    number : In
        Its number.
    select : In
        Which count of the snapshot is read.
    count : Out(32)
        A cycle after `select`.

    Parameters
    ----------
    depth : int
    """

    def __init__(self, depth):
        self._depth = depth
        super().__init__(
            {
                "clear": In(1),
                "snapshot": In(1),
                "enable": In(1),
                "number": In(range(depth)),
                "select": In(range(depth)),
                "count": Out(COUNT_BITS),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        depth = self._depth
        m.submodules.counts = counts = memory.Memory(shape=COUNT_BITS, depth=depth, init=[])
        m.submodules.kept = kept = memory.Memory(shape=COUNT_BITS, depth=depth, init=[])
        old_port, read_port = counts.read_port(domain="comb"), counts.read_port(domain="comb")
        kept_port = kept.read_port(domain="comb")
        count_write, kept_write = counts.write_port(), kept.write_port()

        # Memories have no reset: a count means something once it has been counted.
        counted = Signal(depth)
        unchanged = Signal(depth, init=(1 << depth) - 1)  # since the snapshot
        old = Signal(COUNT_BITS)
        m.d.comb += [
            old_port.addr.eq(self.number),
            old.eq(Mux(counted.bit_select(self.number, 1), old_port.data, 0)),
            count_write.addr.eq(self.number),
            count_write.data.eq(old + 1),
            count_write.en.eq(self.enable),
            kept_write.addr.eq(self.number),
            kept_write.data.eq(old),
            kept_write.en.eq(self.enable & unchanged.bit_select(self.number, 1)),
            read_port.addr.eq(self.select),
            kept_port.addr.eq(self.select),
        ]
        # As a shift: bits that are chosen one by one cost a simulation much more than the count itself.
        chosen = Signal(depth)
        m.d.comb += chosen.eq(Const(1, 1) << self.number)
        with m.If(self.enable):
            m.d.sync += [counted.eq(counted | chosen), unchanged.eq(unchanged & ~chosen)]
        with m.If(self.snapshot | self.clear):
            m.d.sync += unchanged.eq(-1)
        with m.If(self.clear):
            m.d.sync += counted.eq(0)

        with m.If(~unchanged.bit_select(self.select, 1)):
            m.d.sync += self.count.eq(kept_port.data)
        with m.Else():
            m.d.sync += self.count.eq(Mux(counted.bit_select(self.select, 1), read_port.data, 0))
        return m
