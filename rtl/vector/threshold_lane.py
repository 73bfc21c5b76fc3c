"""One lane of hard attention: which distance from the maximum a row's last kept key has."""

from amaranth.hdl import Cat, Module, Signal, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.isa import MAXIMUM_WORDS
from bertha.rtl.selection import one_hot_select

__all__ = ["DIGIT_BITS", "DISTANCE_BITS", "ThresholdLane", "ThresholdStep"]

DISTANCE_BITS = 10
"""Keys that are 2**10 score units and more from the maximum have no probability to lose."""
DIGIT_BITS = 2
"""Of the threshold, found in one pass over the row, with 2**2 - 1 counters."""

_LEFT = signed((MAXIMUM_WORDS - 1).bit_length() + 1)


class ThresholdStep(data.Struct):
    """What all lanes do.

    `start`: a new row. `choose`: all words are counted, the digit is known. `digit`: which one that is, one-hot, bit 0 the
    lowest. `fixed`: the threshold's bits that are known, those above the digit.
    """

    start: unsigned(1)
    choose: unsigned(1)
    digit: unsigned(DISTANCE_BITS // DIGIT_BITS)
    fixed: unsigned(DISTANCE_BITS)


class ThresholdLane(wiring.Component):
    """Finds the threshold T digit by digit, highest first: fewer than `most` + 1 keys are nearer than T, and, if there
    are that many, at least so many are as near or nearer.

    Counter j of a round starts with how many keys may still be kept, less one, and counts down at the keys between what is
    known of T and that plus j + 1 in the digit. Where it falls below 0, T is nearer.

    Ports
    -----
    most : In(12)
        Keys to keep, less one.
    distance : In(10)
        The low bits of the maximum minus the score.
    beyond : In(1)
        It has more bits, or the key is masked: such keys aren't counted.
    take : In(2)
        Bit 0: the digit of `distance` is looked at; bit 1, a cycle later: it is counted.
    keep : In(1)
        The word at `distance` goes on, and is counted if it is at the threshold: the first ones there are kept.
    step : In(ThresholdStep)
    kept : Out(1)
        Whether the word at `distance` is. Combinational.
    """

    most: In(range(MAXIMUM_WORDS))
    distance: In(DISTANCE_BITS)
    beyond: In(1)
    take: In(2)
    keep: In(1)
    step: In(ThresholdStep)
    kept: Out(1)

    def elaborate(self, platform) -> Module:
        m = Module()
        threshold = Signal(DISTANCE_BITS, reset_less=True)
        left = Signal(_LEFT, reset_less=True)  # keys at the threshold that are kept, less one
        counters = [Signal(_LEFT, name=f"counter_{j}", reset_less=True) for j in range(2**DIGIT_BITS - 1)]
        below = Cat(counter[-1] for counter in counters)

        within = Signal()
        digit = one_hot_select(
            self.step.digit,
            [self.distance.word_select(place, DIGIT_BITS) for place in range(len(self.step.digit))],
        )
        m.d.comb += within.eq(~self.beyond & ~((self.distance ^ threshold) & self.step.fixed).any())
        hits = Signal(len(counters), reset_less=True)
        with m.If(self.take[0]):
            m.d.sync += hits.eq(Cat(within & (digit <= j) for j in range(len(counters))))

        # A farther bound has counted more keys: those that are below 0 are the last ones.
        chosen = Signal(DIGIT_BITS)
        remaining = Signal(_LEFT)
        m.d.comb += remaining.eq(left)
        for j, counter in enumerate(counters):
            with m.If(~counter[-1]):
                m.d.comb += [chosen.eq(j + 1), remaining.eq(counter)]
        with m.If(self.step.start):
            m.d.sync += [counter.eq(self.most) for counter in counters]
        with m.Elif(self.step.choose):
            m.d.sync += [counter.eq(remaining) for counter in counters]
        with m.Elif(self.take[1]):
            for j, counter in enumerate(counters):
                m.d.sync += counter.eq(counter - (hits[j] & ~below[j]))

        equal = Signal()
        m.d.comb += [
            equal.eq(self.distance == threshold),
            self.kept.eq((self.distance < threshold) | (equal & ~left[-1])),
        ]
        with m.If(self.step.start):
            m.d.sync += [threshold.eq(0), left.eq(self.most)]
        with m.Elif(self.step.choose):
            m.d.sync += left.eq(remaining)
            for place, here in enumerate(self.step.digit):
                with m.If(here):
                    m.d.sync += threshold.word_select(place, DIGIT_BITS).eq(chosen)
        with m.Elif(self.keep & equal & ~self.beyond & ~left[-1]):
            m.d.sync += left.eq(left - 1)
        return m
