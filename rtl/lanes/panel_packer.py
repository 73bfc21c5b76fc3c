"""Words of a panel become lines."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.signatures import LINE_ADDRESS_BITS

__all__ = ["PanelPacker"]


class PanelPacker(wiring.Component):
    """Packs the words of one panel after another into consecutive lines.

    A 16-bit word is a line; 8-bit words go two a line, and an odd last one gets a zero word beside it.
    Holds a half line and counts lines; its outputs are combinational.

    Ports
    -----
    base : In
        First line of the panel.
    word : In(line_bits)
        A 16-bit word, or an 8-bit word in the low half.
    wide : In(1)
        The panel's words have 16 bits.
    wanted : In(1)
        The word belongs to the panel.
    final : In(1)
        It is the last one of the panel, wanted or not.
    enable : In(1)
        The word is taken at the clock edge.
    complete : Out(1)
        A line is complete with this word: `line`, for the address `addr`. Doesn't wait for `enable`.

    Parameters
    ----------
    config : Config
    lines : int
        The most that a panel has.
    """

    def __init__(self, config, *, lines):
        self._most_lines = lines
        super().__init__(
            {
                "base": In(LINE_ADDRESS_BITS),
                "word": In(config.line_bits),
                "wide": In(1),
                "wanted": In(1),
                "final": In(1),
                "enable": In(1),
                "complete": Out(1),
                "line": Out(config.line_bits),
                "addr": Out(LINE_ADDRESS_BITS),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        low = self.word[: len(self.word) // 2]
        zero = Const(0, len(low))
        half = Signal(len(low), reset_less=True)
        half_valid = Signal()
        offset = Signal(range(self._most_lines))
        m.d.comb += [
            self.addr.eq(self.base + offset),
            self.line.eq(Mux(half_valid, Cat(half, Mux(self.wanted, low, zero)), Cat(low, zero))),
            self.complete.eq(Mux(self.final, half_valid | self.wanted, half_valid & self.wanted)),
        ]
        with m.If(self.wide):
            m.d.comb += [self.line.eq(self.word), self.complete.eq(self.wanted)]
        # Wide words toggle `half_valid` as well; it means nothing then, and is clear behind the last one.
        # While no half is held, its register means nothing, so it doesn't wait for `enable`.
        with m.If(~half_valid):
            m.d.sync += half.eq(low)
        with m.If(self.enable):
            m.d.sync += [
                half_valid.eq(~self.final & (half_valid ^ self.wanted)),
                offset.eq(Mux(self.final, 0, offset + self.complete)),
            ]
        return m
