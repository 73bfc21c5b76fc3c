"""Takes norm records out of their lines."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.isa import NormRecord
from bertha.rtl.stream import Register, connect_streams

__all__ = ["NormRecords"]


class NormRecords(wiring.Component):
    """N/4 records of each line, in order; the rest of a command's last line is dropped.

    A record a cycle, latency one cycle.

    Ports
    -----
    start : In(1)
        A command begins that has `words` records.
    words : In(13)
    i : In(stream of lines)
    o : Out(stream of NormRecord)

    Parameters
    ----------
    config : Config
    """

    def __init__(self, config):
        self._config = config
        super().__init__(
            {
                "start": In(1),
                "words": In(13),
                "i": In(stream.Signature(config.line_bits)),
                "o": Out(stream.Signature(NormRecord)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.register = register = Register(NormRecord)
        connect_streams(m, register.o, self.o)
        per_line = self._config.line_bits // 64
        place = Signal(range(per_line))
        left = Signal(13)
        do_take, is_last = Signal(), Signal()
        m.d.comb += [
            register.i.payload.eq(self.i.payload.word_select(place, 64)),
            register.i.valid.eq(self.i.valid),
            do_take.eq(register.i.valid & register.i.ready),
            is_last.eq((place == per_line - 1) | (left == 1)),
            self.i.ready.eq(register.i.ready & is_last),
        ]
        with m.If(self.start):
            m.d.sync += left.eq(self.words)
        with m.Elif(do_take):
            m.d.sync += [left.eq(left - 1), place.eq(place + 1)]
            with m.If(is_last):
                m.d.sync += place.eq(0)
        return m
