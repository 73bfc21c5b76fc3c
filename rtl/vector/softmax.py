"""One lane of SOFTMAX: a score becomes an unsigned 8-bit probability that isn't divided yet."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.arithmetic import saturate
from bertha.rtl.isa import EXP2_ENTRIES, MAXIMUM_WORDS
from bertha.rtl.vector.threshold_lane import ThresholdLane, ThresholdStep

__all__ = ["Exp2WriteSignature", "SoftmaxLane"]

MASKED_SCORE = -(1 << 15)

Exp2WriteSignature = wiring.Signature({"enable": Out(1), "index": Out(6), "data": Out(16)})
"""One entry of the EXP2 table a cycle, to all lanes at once."""

ThresholdControl = data.StructLayout(
    {"hard": 1, "whole_sum": 1, "most": (MAXIMUM_WORDS - 1).bit_length(), "take": 2, "step": ThresholdStep}
)


class SoftmaxLane(wiring.Component):
    """`P = min(rhu(exp2[f], 8 + i), 255)` with i, f the whole and the 64ths part of `maximum - score`,
    0 for a masked score, and their sum. A score above the maximum wraps the difference to 16 bits.

    With a search, words may pass stage 0 only, to be counted (`bertha.rtl.vector.threshold`). Then P is 0 for a key that
    isn't kept.

    Ports
    -----
    score : In(signed(16))
        In 1/64 of log2.
    maximum : In(signed(16))
        The row's largest score. Stays while scores are in the pipeline.
    step : In(4)
        Bit k: stage k takes a value (`bertha.rtl.vector.steps`).
    accumulate : In(1)
        Adds the probability that is at the output to the sum.
    clear : In(1)
        Sets the sum to zero.
    table : In(Exp2WriteSignature)
    threshold : In
        With a search only. `hard`: the command has one; `whole_sum`: the sum is of all keys; `most`, `take` and `step` are
        `ThresholdLane`'s.
    probability : Out(8)
    sum : Out(20)
        Of up to 4096 probabilities.
    """

    stages = 4

    def __init__(self, *, search):
        self._search = search
        super().__init__(
            {
                "score": In(signed(16)),
                "maximum": In(signed(16)),
                "step": In(self.stages),
                "accumulate": In(1),
                "clear": In(1),
                "table": In(Exp2WriteSignature),
                "probability": Out(8),
                "sum": Out(20),
            }
            | ({"threshold": In(ThresholdControl)} if search else {})
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.exp2 = table = memory.Memory(shape=16, depth=EXP2_ENTRIES, init=[])
        write, read = table.write_port(), table.read_port()
        m.d.comb += [
            write.en.eq(self.table.enable),
            write.addr.eq(self.table.index),
            write.data.eq(self.table.data),
        ]
        distance = Signal(16, reset_less=True)
        masked = Signal(reset_less=True)
        with m.If(self.step[0]):
            m.d.sync += [distance.eq(self.maximum - self.score), masked.eq(self.score == MASKED_SCORE)]
        whole = Signal(4, reset_less=True)  # 9 and more give zero, so do all beyond
        m.d.comb += [read.addr.eq(distance[:6]), read.en.eq(self.step[1])]
        beyond, dropped = Signal(), Signal()
        m.d.comb += beyond.eq(distance[10:].any() | masked)
        with m.If(self.step[1]):
            m.d.sync += whole.eq(Mux(beyond | dropped, 15, distance[6:10]))
        hidden = self._find_threshold(m, distance, beyond, dropped) if self._search else 0
        shifted = Signal(9, reset_less=True)  # one bit below the result, to round with
        with m.If(self.step[2]):
            m.d.sync += shifted.eq(read.data[7:] >> whole)
        probability = Signal.like(self.probability, reset_less=True)
        with m.If(self.step[3]):
            m.d.sync += probability.eq(saturate((shifted + 1)[1:], probability.shape()))
        total = Signal.like(self.sum, reset_less=True)
        with m.If(self.clear):
            m.d.sync += total.eq(0)
        with m.Elif(self.accumulate):
            m.d.sync += total.eq(total + probability)
        m.d.comb += [self.probability.eq(Mux(hidden, 0, probability)), self.sum.eq(total)]
        return m

    def _find_threshold(self, m, distance, beyond, dropped):
        """Drives `dropped`, of the key behind stage 0; whether the probability at the output is in the sum only."""
        control = self.threshold
        m.submodules.threshold = threshold = ThresholdLane()
        m.d.comb += [
            threshold.most.eq(control.most),
            threshold.distance.eq(distance),
            threshold.beyond.eq(beyond),
            threshold.take.eq(control.take),
            threshold.keep.eq(self.step[1]),
            threshold.step.eq(control.step),
            dropped.eq(control.hard & ~control.whole_sum & ~threshold.kept),
        ]
        hidden = control.hard & control.whole_sum & ~threshold.kept
        for stage in range(1, self.stages):
            carried = Signal(name=f"hidden_{stage}", reset_less=True)
            with m.If(self.step[stage]):
                m.d.sync += carried.eq(hidden)
            hidden = carried
        return hidden
