"""Bias, multiplier, shift, rounding, saturation: int32 accumulators to int16."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.arithmetic import halve_saturate
from bertha.rtl.gemm.column import ACCUMULATOR_BITS
from bertha.rtl.signatures import RowFactor

__all__ = ["Requantize"]

KEPT_BITS = 16 + 1 + 7
"""Signed bits that matter after the coarse shift: the result's, the rounding bit, those that the fine
shift drops. A value that doesn't fit is at least 2**23 or below -2**23; after any fine shift and the
rounding it is at least 2**15 or at most -2**15, so it saturates whatever its other bits are."""


class Requantize(wiring.Component):
    """v = sat16(round_half_up((acc + bias) * mult / 2**shift)) in every lane.

    Ports
    -----
    acc : In(N x int32)
    bias : In(int32)
        Of the word's column.
    mult, shift : In(16), In(6)
        Of the word's column, when `row_factor` is clear.
    row_factor : In(1)
    factors : In(N x RowFactor)
        Multiplier and shift of every lane, when `row_factor` is set.
    gain : In(4)
        Subtracted from the lanes' shifts, stopping at 0.
    o : Out(N x int16)
        `latency` cycles later.

    Two 18 x 18 multipliers a lane.
    """

    latency = 6

    def __init__(self, n):
        self._n = n
        super().__init__(
            {
                "acc": In(data.ArrayLayout(signed(ACCUMULATOR_BITS), n)),
                "bias": In(signed(32)),
                "mult": In(16),
                "shift": In(6),
                "row_factor": In(1),
                "factors": In(data.ArrayLayout(RowFactor, n)),
                "gain": In(4),
                "o": Out(data.ArrayLayout(signed(16), n)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        for lane in range(self._n):
            m.submodules[f"lane_{lane}"] = unit = _Lane()
            factor = self.factors[lane]
            row_shift = Signal(6, name=f"row_shift_{lane}")
            m.d.comb += [
                row_shift.eq(Mux(factor.shift > self.gain, factor.shift - self.gain, 0)),
                unit.acc.eq(self.acc[lane]),
                unit.bias.eq(self.bias),
                unit.mult.eq(Mux(self.row_factor, factor.mult, self.mult)),
                unit.shift.eq(Mux(self.row_factor, row_shift, self.shift)),
                self.o[lane].eq(unit.o),
            ]
        return m


class _Lane(wiring.Component):
    """One lane of `Requantize`."""

    acc: In(signed(ACCUMULATOR_BITS))
    bias: In(signed(32))
    mult: In(16)
    shift: In(6)
    o: Out(signed(16))

    def elaborate(self, platform) -> Module:
        m = Module()
        biased = Signal(signed(33), reset_less=True)
        mult = Signal(unsigned(16), reset_less=True)
        shifts = [Signal(6, name=f"shift_{stage}", reset_less=True) for stage in range(4)]
        low = Signal(unsigned(33), reset_less=True)  # low 17 bits of the biased value, times mult
        high = Signal(signed(32), reset_less=True)  # its high 16 bits, times mult
        product = Signal(signed(49), reset_less=True)  # |biased| <= 2**32, mult < 2**16
        coarse = Signal(signed(KEPT_BITS + 1), reset_less=True)
        fine = Signal(signed(KEPT_BITS + 1), reset_less=True)
        limited = Signal(signed(16), reset_less=True)
        m.d.comb += self.o.eq(limited)

        doubled = Cat(Const(0, 1), product)  # one bit below the result stays for rounding
        sign = product[-1]
        coarse_shift = shifts[2][3:]
        shifted = doubled.as_signed() >> Cat(Const(0, 3), coarse_shift)
        # Beside the shifter: whether a bit above those that are kept is no copy of the sign.
        overflow = 0
        for eights, low_bit in enumerate(range(KEPT_BITS - 1, len(doubled) - 1, 8)):
            above = doubled[low_bit : min(low_bit + 8, len(doubled) - 1)]
            overflow |= (above != sign.replicate(len(above))) & (coarse_shift <= eights)
        m.d.sync += [
            biased.eq(self.acc + self.bias),
            mult.eq(self.mult),
            shifts[0].eq(self.shift),
            low.eq(biased[:17] * mult),
            high.eq(biased[17:].as_signed() * mult),
            shifts[1].eq(shifts[0]),
            product.eq(Cat(Const(0, 17), high).as_signed() + low),
            shifts[2].eq(shifts[1]),
            # With the two highest bits unlike, the value is one that doesn't fit, so `limited` saturates.
            coarse.eq(Cat(shifted[: KEPT_BITS - 1], sign ^ overflow, sign)),
            shifts[3].eq(shifts[2]),
            fine.eq(coarse >> shifts[3][:3]),
            limited.eq(halve_saturate(fine, signed(16))),
        ]
        return m
