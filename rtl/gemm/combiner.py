"""The two passes of a wide operand become one: 16 times the high plane's sums, and the low plane's."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.gemm.column import ACCUMULATOR_BITS

__all__ = ["SHIFT", "PlaneCombiner"]

SHIFT = 4
"""Bits of (256 * high + low) that are rounded off, so that an accumulator's width holds it."""


class PlaneCombiner(wiring.Component):
    """t = wrap32(16 * high + round_half_up(low / 16)) in every lane; other passes go through as they are.

    Keeps the N words of a high plane's pass until those of the low plane's come, word by word.
    Combinational from `i` to `o`.

    Ports
    -----
    i : In
        `valid`, `word`, `wide_high`, `wide_low`: see `bertha.rtl.gemm.array.SystolicArray`.
    o : Out
        `valid`, `word` (N x int32).

    Parameters
    ----------
    n : int
    """

    def __init__(self, n):
        self._n = n
        word = data.ArrayLayout(signed(ACCUMULATOR_BITS), n)
        super().__init__(
            {
                "i": In(
                    wiring.Signature(
                        {"valid": Out(1), "word": Out(word), "wide_high": Out(1), "wide_low": Out(1)}
                    )
                ),
                "o": Out(wiring.Signature({"valid": Out(1), "word": Out(word)})),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        # Only so many bits of a high plane's sum reach the result.
        kept_bits = ACCUMULATOR_BITS - (8 - SHIFT)
        kept = data.ArrayLayout(kept_bits, self._n)
        m.submodules.highs = storage = memory.Memory(
            shape=kept.size, depth=self._n, init=[], attrs={"ram_style": "distributed"}
        )
        write, read = storage.write_port(), storage.read_port()
        column, following = Signal(range(self._n)), Signal(range(self._n))
        high = Signal(kept)
        m.d.comb += [
            following.eq(column + self.i.valid),
            write.en.eq(self.i.valid & self.i.wide_high),
            write.addr.eq(column),
            write.data.eq(Cat(self.i.word[lane][:kept_bits] for lane in range(self._n))),
            # A word's own is read in the cycle before; it was written N cycles ago or earlier.
            read.addr.eq(following),
            Value.cast(high).eq(read.data),
            self.o.valid.eq(self.i.valid & ~self.i.wide_high),
        ]
        m.d.sync += column.eq(following)
        for lane in range(self._n):
            low = self.i.word[lane]
            # One bit more below, so that rounding is the carry into an adder that is there anyway.
            total = Signal(ACCUMULATOR_BITS + 1, name=f"total_{lane}")
            m.d.comb += [
                total.eq(low[SHIFT - 1 :].as_signed() + Cat(Const(1, 9 - SHIFT), high[lane])),
                self.o.word[lane].eq(Mux(self.i.wide_low, total[1:].as_signed(), low)),
            ]
        return m
