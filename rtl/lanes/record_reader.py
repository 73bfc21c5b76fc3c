"""Records out of lines."""

from amaranth.hdl import Module, Mux, ResetInserter, Shape, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.stream import Register, as_bits, connect_streams

__all__ = ["RecordReader"]


class RecordReader(wiring.Component):
    """Splits lines into the records they hold, from the low bytes up; a record a cycle, a cycle later.

    Ports
    -----
    i : In(stream of lines)
    o : Out(stream of `shape`)
    restart : In(1)
        What is left of the line at hand is dropped; the next record is the first of the next line.

    Parameters
    ----------
    config : Config
    shape : shape-like
        Of a record; a line holds a whole number of them.
    """

    def __init__(self, config, shape):
        self._config = config
        self._shape = shape
        super().__init__(
            {"i": In(stream.Signature(config.line_bits)), "o": Out(stream.Signature(shape)), "restart": In(1)}
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        register = Register(self._shape)
        m.submodules.register = ResetInserter(self.restart)(register)
        connect_streams(m, register.o, self.o)
        width = Shape.cast(self._shape).width
        per_line = self._config.line_bits // width
        place = Signal(range(per_line))
        do_take, is_last = Signal(), Signal()
        m.d.comb += [
            as_bits(register.i.payload).eq(self.i.payload.word_select(place, width)),
            register.i.valid.eq(self.i.valid),
            do_take.eq(register.i.valid & register.i.ready),
            is_last.eq(place == per_line - 1),
            self.i.ready.eq(Mux(self.restart, place != 0, register.i.ready & is_last)),
        ]
        with m.If(self.restart | (do_take & is_last)):
            m.d.sync += place.eq(0)
        with m.Elif(do_take):
            m.d.sync += place.eq(place + 1)
        return m
