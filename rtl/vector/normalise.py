"""One lane of LAYERNORM up to gamma: subtract the mean, divide by the deviation, multiply by gamma."""

from amaranth.hdl import Cat, Module, Signal, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.lanes.rounding_shift import RoundingShift
from bertha.rtl.signatures import RowFactor

__all__ = ["NormaliseLane"]


class NormaliseLane(wiring.Component):
    """`z = sat18(rhu((n * x - sum) * mult, shift))`, then `rhu(z * gamma, gamma_shift)`.

    Uses four 18 x 18 multipliers, each between registers. Apart from `x` and `gamma` the operands
    stay while values are in the pipeline.

    Ports
    -----
    x : In(signed(16))
    n : In(13)
        Words of the row.
    sum : In(signed(28))
        Of the row's x.
    scale : In(RowFactor)
        mult and shift, the row's (`bertha.rtl.vector.row_scale`).
    gamma : In(signed(16))
        Register that belongs to stage `gamma_stage`: it holds the gamma of the word whose z is
        at that stage.
    gamma_shift : In(6)
    step : In(stages)
        Bit k: stage k takes a value (`bertha.rtl.vector.steps`).
    o : Out(signed(18))
        Saturated to 18 bits, which changes nothing after beta is added and 16 bits are left.
    """

    gamma_stage = 3 + RoundingShift.latency
    stages = gamma_stage + 2 + RoundingShift.latency

    x: In(signed(16))
    n: In(13)
    sum: In(signed(28))
    scale: In(RowFactor)
    gamma: In(signed(16))
    gamma_shift: In(6)
    step: In(stages)
    o: Out(signed(18))

    def elaborate(self, platform) -> Module:
        m = Module()
        step = self.step
        scaled = Signal(signed(29), reset_less=True)
        centred = Signal(signed(29), reset_less=True)
        with m.If(step[0]):
            m.d.sync += scaled.eq(self.x * self.n)
        with m.If(step[1]):
            m.d.sync += centred.eq(scaled - self.sum)

        # 29 x 16 bits in two multipliers, split where the low half fills an unsigned 17-bit operand.
        low = Signal(unsigned(33), reset_less=True)
        high = Signal(signed(28), reset_less=True)
        ratio = Signal(signed(45), reset_less=True)
        with m.If(step[2]):
            m.d.sync += [
                low.eq(centred[:17] * self.scale.mult),
                high.eq(centred[17:].as_signed() * self.scale.mult),
            ]
        with m.If(step[3]):
            m.d.sync += ratio.eq(Cat(low[:17], (high + low[17:])[:28]))

        m.submodules.to_z = to_z = RoundingShift(len(ratio), 18)
        m.d.comb += [to_z.value.eq(ratio), to_z.shift.eq(self.scale.shift), to_z.step.eq(step[4:6])]
        product = Signal(signed(34), reset_less=True)
        with m.If(step[6]):
            m.d.sync += product.eq(to_z.o * self.gamma)
        m.submodules.to_o = to_o = RoundingShift(len(product), len(self.o))
        m.d.comb += [
            to_o.value.eq(product),
            to_o.shift.eq(self.gamma_shift),
            to_o.step.eq(step[7:9]),
            self.o.eq(to_o.o),
        ]
        return m
