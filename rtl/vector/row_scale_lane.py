"""One lane of the serial arithmetic behind a row's scale."""

from amaranth.hdl import C, Cat, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.signatures import Moments, RowFactor

__all__ = ["RowScaleLane", "RowScaleStep"]

_BITS = 56
_ROOT_BITS = 20


class RowScaleStep(data.Struct):
    """What all lanes do in a cycle; `clear`, `add`, `normalise`, `root`, `prepare`, `divide` exclude
    one another.

    `add` adds the sum of what its companions choose: with `double`, the accumulator twice and
    minus the row's sum if the bit of it that was chosen a cycle ago (`bit`) is set (plus it, with
    `sign_bit`: the bit's weight is negative); `squares`, `epsilon`, `probabilities` else.
    `repair` makes 1 of 0.
    """

    clear: 1
    add: 1
    double: 1
    sign_bit: 1
    squares: 1
    epsilon: 1
    probabilities: 1
    repair: 1
    normalise: 1
    root: 1
    prepare: 1
    divide: 1
    bit: 5


class RowScaleLane(wiring.Component):
    """`n * squares - sum**2 + epsilon` by Horner's rule, its square root, and a reciprocal.

    An accumulator of 56 bits that adds, and shifts left by 2 or 8; a subtractor of 24 bits that
    takes a bit of the square root (digit by digit, two bits of the radicand at a time) or of the
    quotient (restoring division of 2**35 - 1) a cycle. See docs/architecture.md for the formulas.

    Ports
    -----
    step : In(RowScaleStep)
    softmax : In(1)
        The divisor is the normalised sum of probabilities, not the root.
    moments : In(Moments)
    probabilities : In(20)
        Their sum.
    epsilon : In(32)
    factor : Out(RowFactor)
        1/sum of SOFTMAX, 1/deviation of LAYERNORM.
    """

    step: In(RowScaleStep)
    softmax: In(1)
    moments: In(Moments)
    probabilities: In(20)
    epsilon: In(32)
    factor: Out(RowFactor)

    def elaborate(self, platform) -> Module:
        m = Module()
        step = self.step
        # `clear` and the steps themselves set all of these before they are used.
        accumulator = Signal(_BITS, reset_less=True)
        root = Signal(_ROOT_BITS, reset_less=True)
        remainder = Signal(_ROOT_BITS + 1, reset_less=True)
        reciprocal = Signal(16, reset_less=True)
        # Pairs of bits that the accumulator was shifted by to normalise it.
        pairs = Signal(5, reset_less=True)
        odd, zero = Signal(reset_less=True), Signal(reset_less=True)

        row_sum = Signal(signed(_BITS))
        sum_bit, subtract = Signal(reset_less=True), Signal()
        total = Signal(_BITS)
        m.d.comb += [
            row_sum.eq(self.moments.sum),
            subtract.eq(sum_bit & ~step.sign_bit),
            total.eq(
                # The doubled accumulator has room for the one that completes a negation.
                Mux(step.double, Cat(subtract, accumulator[:-1]), accumulator)
                + (
                    ((row_sum ^ subtract.replicate(_BITS)) & (sum_bit & step.double).replicate(_BITS))
                    | (self.moments.squares & step.squares.replicate(len(self.moments.squares)))
                    | (self.epsilon & step.epsilon.replicate(len(self.epsilon)))
                    | Cat(C(0, _BITS - 20), self.probabilities & step.probabilities.replicate(20))
                )
            ),
        ]
        m.d.sync += sum_bit.eq(self.moments.sum.as_unsigned().bit_select(step.bit, 1))

        by_eight, by_two = Signal(), Signal()
        m.d.comb += [
            by_eight.eq(step.normalise & ~accumulator[-8:].any()),
            by_two.eq((step.normalise & ~accumulator[-2:].any()) | step.root),
        ]
        with m.If(step.add):
            m.d.sync += accumulator.eq(total)
        with m.Elif(by_eight):
            m.d.sync += [accumulator.eq(accumulator << 8), pairs.eq(pairs + 4)]
        with m.Elif(by_two):
            m.d.sync += [accumulator.eq(accumulator << 2), pairs.eq(pairs + step.normalise)]
        with m.If(step.repair):
            m.d.sync += zero.eq(~accumulator.any())
            with m.If(~accumulator.any()):
                m.d.sync += accumulator[0].eq(1)

        minuend, subtrahend = Signal(23), Signal(22)
        difference = Signal(signed(24))
        fits = Signal()
        m.d.comb += [
            minuend.eq(Mux(step.divide, Cat(C(1, 1), remainder), Cat(accumulator[-2:], remainder))),
            subtrahend.eq(Mux(step.divide, root, Cat(C(1, 2), root))),
            difference.eq(minuend - subtrahend),
            fits.eq(~difference[-1]),
        ]
        with m.If(step.root | step.divide):
            m.d.sync += remainder.eq(Mux(fits, difference, minuend))
        with m.If(step.root):
            m.d.sync += root.eq(Cat(fits, root))
        with m.If(step.divide):
            m.d.sync += reciprocal.eq(Cat(fits, reciprocal))
        with m.If(step.prepare):
            m.d.sync += remainder.eq((1 << _ROOT_BITS - 1) - 1)
            m.d.sync += odd.eq(~accumulator[-1])
            with m.If(self.softmax):
                m.d.sync += root.eq(Mux(accumulator[-1], accumulator[-20:], accumulator[-21:-1]))
        with m.If(step.clear):
            m.d.sync += [accumulator.eq(0), root.eq(0), remainder.eq(0), pairs.eq(0)]

        m.d.comb += [
            self.factor.mult.eq(Mux(self.softmax & zero, 0, reciprocal)),
            self.factor.shift.eq(Mux(self.softmax, Mux(zero, 0, 35 - Cat(odd, pairs)), ~pairs)),  # 31 - pairs
        ]
        return m
