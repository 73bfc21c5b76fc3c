"""Bias, multiplier, shift, rounding, saturation: int32 accumulators to int16."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.gemm.column import ACCUMULATOR_BITS
from bertha.rtl.lanes.rounding_shift import RoundingShift
from bertha.rtl.signatures import RowFactor

__all__ = ["Requantise"]


class Requantise(wiring.Component):
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
    step : In(latency)
        Bit k: stage k takes a value. A pipeline that never stops leaves it alone.
    o : Out(N x int16)
        `latency` cycles later.

    Two 18 x 18 multipliers a lane.
    """

    latency = 3 + RoundingShift.latency

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
                "step": In(self.latency, init=(1 << self.latency) - 1),
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
                unit.step.eq(self.step),
                self.o[lane].eq(unit.o),
            ]
        return m


class _Lane(wiring.Component):
    """One lane of `Requantise`."""

    acc: In(signed(ACCUMULATOR_BITS))
    bias: In(signed(32))
    mult: In(16)
    shift: In(6)
    step: In(Requantise.latency)
    o: Out(signed(16))

    def elaborate(self, platform) -> Module:
        m = Module()
        biased = Signal(signed(33), reset_less=True)
        mult = Signal(unsigned(16), reset_less=True)
        shifts = [Signal(6, name=f"shift_{stage}", reset_less=True) for stage in range(3)]
        low = Signal(unsigned(33), reset_less=True)  # low 17 bits of the biased value, times mult
        high = Signal(signed(32), reset_less=True)  # its high 16 bits, times mult
        product = Signal(signed(49), reset_less=True)  # |biased| <= 2**32, mult < 2**16
        with m.If(self.step[0]):
            m.d.sync += [biased.eq(self.acc + self.bias), mult.eq(self.mult), shifts[0].eq(self.shift)]
        with m.If(self.step[1]):
            m.d.sync += [
                low.eq(biased[:17] * mult),
                high.eq(biased[17:].as_signed() * mult),
                shifts[1].eq(shifts[0]),
            ]
        with m.If(self.step[2]):
            m.d.sync += [product.eq(Cat(Const(0, 17), high).as_signed() + low), shifts[2].eq(shifts[1])]
        m.submodules.limited = limited = RoundingShift(len(product), 16)
        m.d.comb += [
            limited.value.eq(product),
            limited.shift.eq(shifts[-1]),
            limited.step.eq(self.step[3:]),
            self.o.eq(limited.o),
        ]
        return m
