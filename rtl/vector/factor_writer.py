"""Writes row factors, from the scratchpad or as SOFTMAX finds them."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.isa import FactorRecord
from bertha.rtl.row_slots import RowSlots
from bertha.rtl.signatures import RowFactor

__all__ = ["FactorWriter"]


class FactorWriter(wiring.Component):
    """Registers the N factors of a slot on their way to the row slots.

    Ports
    -----
    slot : In
    i : In(stream of lines)
        Two lines of N/2 factor records each make one write.
    take : In(1)
        Write `factors`. No line may come in the same cycle.
    factors : In(N RowFactors)
    write : Out
        `RowSlots.write_signature`; `enable` a cycle after `take` or after the second line.

    Parameters
    ----------
    config : Config
    """

    def __init__(self, config):
        self._config = config
        layout = data.ArrayLayout(RowFactor, config.array_n)
        super().__init__(
            {
                "slot": In(config.slot_bits),
                "i": In(stream.Signature(config.line_bits)),
                "take": In(1),
                "factors": In(layout),
                "write": Out(RowSlots.write_signature(config, layout)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        lanes = self._config.array_n
        half = Signal(self._config.line_bits, reset_less=True)
        written = Signal(self.write.lanes.shape(), reset_less=True)
        second = Signal()
        records = data.View(data.ArrayLayout(FactorRecord, lanes), Cat(half, self.i.payload))
        m.d.comb += self.i.ready.eq(1)
        m.d.sync += [self.write.enable.eq(self.take | (self.i.valid & second)), self.write.slot.eq(self.slot)]
        with m.If(self.i.valid):
            m.d.sync += second.eq(~second)
            with m.If(~second):
                m.d.sync += half.eq(self.i.payload)
            for lane in range(lanes):
                m.d.sync += [
                    written[lane].mult.eq(records[lane].mult),
                    written[lane].shift.eq(records[lane].shift),
                ]
        with m.If(self.take):
            m.d.sync += written.eq(self.factors)
        m.d.comb += self.write.lanes.eq(written)
        return m
