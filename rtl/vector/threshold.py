"""Hard attention: the search for the distance at which a row's last kept key lies, all lanes in lockstep."""

from amaranth.hdl import C, Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.isa import MAXIMUM_WORDS
from bertha.rtl.vector.threshold_lane import DIGIT_BITS, DISTANCE_BITS, ThresholdStep

__all__ = ["ROUNDS", "WAIT_CYCLES", "ThresholdSearch"]

ROUNDS = DISTANCE_BITS // DIGIT_BITS
"""Passes over a row before the one that writes its probabilities."""

WAIT_CYCLES = 4
"""From a round's last word, which has to be counted, until the next one's first may enter."""


class ThresholdSearch(wiring.Component):
    """Tells the lanes what a word that enters is for: `ROUNDS` times to be counted, then to become a probability.

    A round takes as many words as the row has. Then nothing may enter for `WAIT_CYCLES`, until the last word is counted.

    Ports
    -----
    start : In(1)
        A command begins; nothing is inside.
    hard : In(1)
        It has a search. Stays, as do `words`, while words are inside.
    words : In(16)
    entered : In(1)
        A word enters the lanes.
    uncounted : In(1)
        A word that is to be counted is inside.
    open : Out(1)
        Words may enter.
    counting : Out(1)
        What enters, or has just entered, is to be counted.
    step : Out(ThresholdStep)
    """

    start: In(1)
    hard: In(1)
    words: In(16)
    entered: In(1)
    uncounted: In(1)
    open: Out(1)
    counting: Out(1)
    step: Out(ThresholdStep)

    def elaborate(self, platform) -> Module:
        m = Module()
        left = Signal(range(MAXIMUM_WORDS + 1))
        digit, fixed = Signal(ROUNDS), Signal(DISTANCE_BITS)
        # All of the lanes' counters hang on `choose`: a register drives it.
        choose = Signal()
        m.d.comb += [
            self.step.start.eq(self.start),
            self.step.choose.eq(choose),
            self.step.digit.eq(digit),
            self.step.fixed.eq(fixed),
            self.open.eq(1),
        ]
        m.d.sync += choose.eq(0)
        with m.If(self.start):
            m.d.sync += [digit.eq(1 << ROUNDS - 1), fixed.eq(0)]
        with m.Elif(choose):
            m.d.sync += [
                digit.eq(digit >> 1),
                fixed.eq(Cat(fixed[DIGIT_BITS:], C(1, 1).replicate(DIGIT_BITS))),
            ]
        with m.FSM():
            with m.State("WRITE"):
                m.d.sync += left.eq(self.words)
                with m.If(self.start & self.hard):
                    m.next = "COUNT"
            with m.State("COUNT"):
                m.d.comb += self.counting.eq(1)
                with m.If(self.entered):
                    m.d.sync += left.eq(left - 1)
                    with m.If(left == 1):
                        m.next = "SETTLE"
            with m.State("SETTLE"):
                m.d.comb += [self.open.eq(0), self.counting.eq(1)]
                m.d.sync += left.eq(self.words)
                with m.If(~self.uncounted):
                    m.d.sync += choose.eq(1)
                    m.next = "COUNT"
                    with m.If(digit[0]):
                        m.next = "WRITE"
        return m
