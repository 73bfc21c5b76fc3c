"""Writes row factors and row ranges, from the scratchpad or, factors, as SOFTMAX finds them."""

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.isa import FactorRecord, RangeRecord
from bertha.rtl.row_slots import RowSlots
from bertha.rtl.signatures import RowFactor

__all__ = ["RowWriter"]


class RowWriter(wiring.Component):
    """Registers the N factors or ranges of a slot on their way to the row slots.

    Ports
    -----
    slot : In
    ranges : In(1)
        The lines hold ranges, not factors.
    i : In(stream of lines)
        Two lines of N/2 records each make one write.
    take : In(1)
        Write `factors`. No line may come in the same cycle.
    factors : In(N RowFactors)
    factor_write, range_write : Out
        `RowSlots.write_signature`; `enable` of one of them a cycle after `take` or after the second line.

    Parameters
    ----------
    config : Config
    """

    def __init__(self, config):
        self._config = config
        factors = data.ArrayLayout(RowFactor, config.array_n)
        ranges = data.ArrayLayout(RangeRecord, config.array_n)
        super().__init__(
            {
                "slot": In(config.slot_bits),
                "ranges": In(1),
                "i": In(stream.Signature(config.line_bits)),
                "take": In(1),
                "factors": In(factors),
                "factor_write": Out(RowSlots.write_signature(config, factors)),
                "range_write": Out(RowSlots.write_signature(config, ranges)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        lanes = self._config.array_n
        half = Signal(self._config.line_bits, reset_less=True)
        # Both kinds of record have four bytes, and are kept in the same ones.
        written = Signal(data.ArrayLayout(FactorRecord, lanes), reset_less=True)
        second, complete = Signal(), Signal()
        m.d.comb += [self.i.ready.eq(1), complete.eq(self.i.valid & second)]
        m.d.sync += [
            self.factor_write.enable.eq(self.take | (complete & ~self.ranges)),
            self.range_write.enable.eq(complete & self.ranges),
            self.factor_write.slot.eq(self.slot),
            self.range_write.slot.eq(self.slot),
        ]
        with m.If(self.i.valid):
            m.d.sync += second.eq(~second)
            with m.If(~second):
                m.d.sync += half.eq(self.i.payload)
            m.d.sync += Value.cast(written).eq(Cat(half, self.i.payload))
        with m.If(self.take):
            for lane in range(lanes):
                m.d.sync += [written[lane][name].eq(self.factors[lane][name]) for name in ("mult", "shift")]
        m.d.comb += Value.cast(self.range_write.lanes).eq(Value.cast(written))
        for lane in range(lanes):
            m.d.comb += [
                self.factor_write.lanes[lane][name].eq(written[lane][name]) for name in ("mult", "shift")
            ]
        return m
