"""One lane of SOFTMAX: a score becomes an unsigned 8-bit probability that isn't divided yet."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.arithmetic import saturate
from bertha.rtl.isa import EXP2_ENTRIES

__all__ = ["Exp2WriteSignature", "SoftmaxLane"]

MASKED_SCORE = -(1 << 15)

Exp2WriteSignature = wiring.Signature({"enable": Out(1), "index": Out(6), "data": Out(16)})
"""One entry of the EXP2 table a cycle, to all lanes at once."""


class SoftmaxLane(wiring.Component):
    """`P = min(rhu(exp2[f], 8 + i), 255)` with i, f the whole and the 64ths part of `maximum - score`,
    0 for a masked score, and their sum. A score above the maximum wraps the difference to 16 bits.

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
    probability : Out(8)
    sum : Out(20)
        Of up to 4096 probabilities.
    """

    stages = 4

    score: In(signed(16))
    maximum: In(signed(16))
    step: In(stages)
    accumulate: In(1)
    clear: In(1)
    table: In(Exp2WriteSignature)
    probability: Out(8)
    sum: Out(20)

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
        with m.If(self.step[1]):
            m.d.sync += whole.eq(Mux(distance[10:].any() | masked, 15, distance[6:10]))
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
        m.d.comb += [self.probability.eq(probability), self.sum.eq(total)]
        return m
