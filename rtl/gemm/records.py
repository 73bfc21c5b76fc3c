"""Column records: lines of the scratchpad become one record a column."""

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.isa import ColumnRecord
from bertha.rtl.stream import as_bits

__all__ = ["RecordReader"]

RECORD_BITS = 64


class RecordReader(wiring.Component):
    """Splits lines into the records they hold, from the low bytes up; a record a cycle.

    Ports
    -----
    i : In(stream of lines)
    o : Out(stream of ColumnRecord)
    """

    def __init__(self, config):
        self._config = config
        super().__init__(
            {
                "i": In(stream.Signature(config.line_bits)),
                "o": Out(stream.Signature(ColumnRecord)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        count = self._config.line_bits // RECORD_BITS
        position = Signal(range(count))
        do_take = Signal()
        m.d.comb += [
            as_bits(self.o.payload).eq(
                Array(self.i.payload.word_select(n, RECORD_BITS) for n in range(count))[position]
            ),
            self.o.valid.eq(self.i.valid),
            do_take.eq(self.o.valid & self.o.ready),
            self.i.ready.eq(do_take & (position == count - 1)),
        ]
        with m.If(do_take):
            m.d.sync += position.eq(Mux(position == count - 1, 0, position + 1))
        return m
