"""One lane of requantisation: int16 to int8 and what saturation cut off, or to two planes."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.arithmetic import residue, saturate, split_wide
from bertha.rtl.lanes.rounding_shift import RoundingShift

__all__ = ["RequantiseLane"]


class RequantiseLane(wiring.Component):
    """`w = sat16(rhu(y * mult, shift))`, `sat8(w)` and `sat8(w - sat8(w))`, one 18 x 18 multiplier.

    With `wide`, the two bytes of `min(w, 32639)` in their place, see `bertha.rtl.arithmetic.split_wide`.

    Ports
    -----
    y : In(signed(16))
        Taken by stage 0.
    mult : In(16)
        Register that belongs to stage 0.
    shift : In(6)
    wide : In(1)
        Stay while values are in the pipeline.
    step : In(stages)
        Bit k: stage k takes a value (`bertha.rtl.vector.steps`).
    word16 : Out(signed(16))
        y, beside its outcome.
    word8, residue : Out(signed(8))
        Or the high and the low byte.
    """

    stages = 3 + RoundingShift.latency

    y: In(signed(16))
    mult: In(16)
    shift: In(6)
    wide: In(1)
    step: In(stages)
    word16: Out(signed(16))
    word8: Out(signed(8))
    residue: Out(signed(8))

    def elaborate(self, platform) -> Module:
        m = Module()
        step = self.step
        carried = [Signal(signed(16), name=f"y_{stage}", reset_less=True) for stage in range(self.stages)]
        for stage, value in enumerate(carried):
            with m.If(step[stage]):
                m.d.sync += value.eq(carried[stage - 1] if stage else self.y)
        m.d.comb += self.word16.eq(carried[-1])

        product = Signal(signed(33), reset_less=True)
        with m.If(step[1]):
            m.d.sync += product.eq(carried[0] * self.mult)
        m.submodules.to_w = to_w = RoundingShift(len(product), 16)
        m.d.comb += [to_w.value.eq(product), to_w.shift.eq(self.shift), to_w.step.eq(step[2:4])]
        word8 = Signal(signed(8), reset_less=True)
        left_over = Signal(signed(8), reset_less=True)
        with m.If(step[4]):
            high, low = split_wide(to_w.o)
            m.d.sync += [
                word8.eq(Mux(self.wide, high, saturate(to_w.o, signed(8)))),
                left_over.eq(Mux(self.wide, low, residue(to_w.o))),
            ]
        m.d.comb += [self.word8.eq(word8), self.residue.eq(left_over)]
        return m
