"""Fills the tables from lines of the scratchpad."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.isa import EXP2_ENTRIES, SEGMENTS
from bertha.rtl.signatures import TableWriteSignature
from bertha.rtl.vector.softmax import Exp2WriteSignature

__all__ = ["TableLoader"]


class TableLoader(wiring.Component):
    """Writes one entry a cycle: 64 of 16 bits (EXP2) or 256 of 32 bits (PIECEWISE).

    A line takes a cycle more than it has entries.

    Ports
    -----
    start : In(1)
        A table begins.
    piecewise : In(1)
        Which; stays until `done`.
    i : In(stream of lines)
    exp2 : Out(Exp2WriteSignature)
    segments : Out(TableWriteSignature)
        The piecewise table's.
    done : Out(1)
        For one cycle: the last entry is written.

    Parameters
    ----------
    config : Config
    """

    def __init__(self, config):
        self._config = config
        super().__init__(
            {
                "start": In(1),
                "piecewise": In(1),
                "i": In(stream.Signature(config.line_bits)),
                "exp2": Out(Exp2WriteSignature),
                "segments": Out(TableWriteSignature),
                "done": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        line = Signal(self._config.line_bits, reset_less=True)
        per_line = self._config.array_n  # 16-bit entries
        left = Signal(range(per_line + 1))  # entries in `line`
        index = Signal(8)
        writing, is_last = Signal(), Signal()
        m.d.comb += [
            writing.eq(left != 0),
            self.i.ready.eq(~writing),
            is_last.eq(index == Mux(self.piecewise, SEGMENTS - 1, EXP2_ENTRIES - 1)),
        ]
        with m.If(writing):
            m.d.sync += [
                line.eq(Mux(self.piecewise, line >> 32, line >> 16)),
                left.eq(left - 1),
                index.eq(index + 1),
            ]
        with m.Elif(self.i.valid):
            m.d.sync += [line.eq(self.i.payload), left.eq(Mux(self.piecewise, per_line // 2, per_line))]
        with m.If(self.start):
            m.d.sync += index.eq(0)
        m.d.sync += [
            self.exp2.enable.eq(writing & ~self.piecewise),
            self.segments.enable.eq(writing & self.piecewise),
            self.done.eq(writing & is_last),
        ]
        with m.If(writing):
            m.d.sync += [
                self.exp2.index.eq(index),
                self.exp2.data.eq(line),
                self.segments.index.eq(index),
                self.segments.data.eq(line),
            ]
        return m
