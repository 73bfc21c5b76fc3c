"""Scale of each row: 1/deviation for LAYERNORM, 1/sum for SOFTMAX."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.signatures import Moments, RowFactor
from bertha.rtl.vector.row_scale_lane import RowScaleLane, RowScaleStep

__all__ = ["RowScale"]

_SUM_BITS = 28
_WORDS_BITS = 13
_NORMALISE_STEPS = 9  # six shifts by 8 and three by 2 bring bit 0 to bit 54
_ROOT_STEPS = 20
_QUOTIENT_STEPS = 16


class RowScale(wiring.Component):
    """Serial arithmetic of all lanes in lockstep.

    LAYERNORM takes 91 cycles from `start` to `done`, SOFTMAX 30; results stay until the next start.

    Ports
    -----
    start : In(1)
        The other inputs are there and stay until `done`.
    softmax : In(1)
        Invert the sums of probabilities, else find the row's deviation from its moments.
    words : In(13)
        n.
    epsilon : In(32)
    moments : In(N Moments)
    probabilities : In(N x 20)
    done : Out(1)
        For one cycle; the results are there.
    factors : Out(N RowFactors)
        SOFTMAX's factors; r and 31 - e of LAYERNORM.

    Parameters
    ----------
    config : Config
    """

    def __init__(self, config):
        self._lanes = lanes = config.array_n
        super().__init__(
            {
                "start": In(1),
                "softmax": In(1),
                "words": In(_WORDS_BITS),
                "epsilon": In(32),
                "moments": In(data.ArrayLayout(Moments, lanes)),
                "probabilities": In(20).array(lanes),
                "done": Out(1),
                "factors": Out(data.ArrayLayout(RowFactor, lanes)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        step = Signal(RowScaleStep)
        count = Signal(5, init=_SUM_BITS)
        # Every bit of every lane hangs on the step: a register drives it, and the lanes follow a
        # cycle later.
        lane_step, last = Signal(RowScaleStep), Signal()
        # Lanes look up a bit of their sum a cycle before they use it.
        m.d.comb += step.bit.eq(count - 1)
        m.d.sync += [lane_step.eq(step), last.eq(0), self.done.eq(last)]

        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += step.clear.eq(self.start)
                with m.If(self.start):
                    m.d.sync += count.eq(_SUM_BITS - 1)
                    with m.If(self.softmax):
                        m.next = "PROBABILITIES"
                    with m.Else():
                        m.next = "SUM"
            # Both products by Horner's rule, highest bit first: n has fewer bits and joins late.
            with m.State("SUM"):
                m.d.comb += [step.add.eq(1), step.double.eq(1), step.sign_bit.eq(count == _SUM_BITS - 1)]
                with m.If(count < _WORDS_BITS):
                    m.next = "SQUARES"
                with m.Else():
                    m.d.sync += count.eq(count - 1)
            with m.State("SQUARES"):
                m.d.comb += [step.add.eq(1), step.squares.eq(self.words.bit_select(count[:4], 1))]
                m.d.sync += count.eq(count - 1)
                m.next = "SUM"
                with m.If(count == 0):
                    m.next = "EPSILON"
            with m.State("EPSILON"):
                m.d.comb += [step.add.eq(1), step.epsilon.eq(1)]
                m.next = "REPAIR"
            with m.State("PROBABILITIES"):
                m.d.comb += [step.add.eq(1), step.probabilities.eq(1)]
                m.next = "REPAIR"
            with m.State("REPAIR"):
                m.d.comb += step.repair.eq(1)
                m.d.sync += count.eq(_NORMALISE_STEPS - 1)
                m.next = "NORMALISE"
            with m.State("NORMALISE"):
                m.d.comb += step.normalise.eq(1)
                m.d.sync += count.eq(count - 1)
                with m.If(count == 0):
                    m.d.sync += count.eq(_ROOT_STEPS - 1)
                    with m.If(self.softmax):
                        m.next = "PREPARE"
                    with m.Else():
                        m.next = "ROOT"
            with m.State("ROOT"):
                m.d.comb += step.root.eq(1)
                m.d.sync += count.eq(count - 1)
                with m.If(count == 0):
                    m.next = "PREPARE"
            with m.State("PREPARE"):
                m.d.comb += step.prepare.eq(1)
                m.d.sync += count.eq(_QUOTIENT_STEPS - 1)
                m.next = "DIVIDE"
            with m.State("DIVIDE"):
                m.d.comb += step.divide.eq(1)
                m.d.sync += count.eq(count - 1)
                with m.If(count == 0):
                    m.d.sync += [count.eq(_SUM_BITS), last.eq(1)]
                    m.next = "IDLE"

        for lane in range(self._lanes):
            m.submodules[f"lane_{lane}"] = unit = RowScaleLane()
            m.d.comb += [
                unit.step.eq(lane_step),
                unit.softmax.eq(self.softmax),
                unit.moments.eq(self.moments[lane]),
                unit.probabilities.eq(self.probabilities[lane]),
                unit.epsilon.eq(self.epsilon),
                self.factors[lane].eq(unit.factor),
            ]
        return m
