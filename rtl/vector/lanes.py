"""N lanes in lockstep: source words in, result words out."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.arithmetic import saturate
from bertha.rtl.isa import NormRecord
from bertha.rtl.signatures import Moments, RowFactor
from bertha.rtl.vector.job import Job
from bertha.rtl.vector.normalise import NormaliseLane
from bertha.rtl.vector.requantise import RequantiseLane
from bertha.rtl.vector.softmax import Exp2WriteSignature, SoftmaxLane
from bertha.rtl.vector.steps import Steps
from bertha.rtl.vector.threshold import ThresholdSearch

__all__ = ["Lanes", "result_word"]


def result_word(config) -> data.StructLayout:
    """Shape of one word of a command's results: what may be written of it."""
    lanes = config.array_n
    return data.StructLayout(
        {
            "word16": data.ArrayLayout(signed(16), lanes),
            "word8": data.ArrayLayout(8, lanes),
            "residue": data.ArrayLayout(8, lanes),
            "flagged": 1,
        }
    )


class Lanes(wiring.Component):
    """The datapaths of SOFTMAX, LAYERNORM and QUANTIZE; a word a cycle.

    All of it moves as a whole, when the word at the end is taken and the norm record that a word
    needs is there. A word takes a step more than the stages of the lanes that it goes through.

    Ports
    -----
    job : In(Job)
        Stays while words are inside.
    clear : In(1)
        Starts new sums of probabilities; nothing is inside.
    open : In(1)
        Words may enter: what the job needs of the row is known.
    i : In(stream of int16 lines)
    records : In(stream of NormRecord)
        One for every word of LAYERNORM and QUANTIZE.
    o : Out(stream of `result_word`)
        `flagged` is the residue flag of the word's record.
    moments : In(N Moments)
        Of the job's slot.
    scales : In(N RowFactors)
        Of LAYERNORM, see `bertha.rtl.vector.row_scale`.
    sums : Out(N x 20)
        Of the probabilities that have left.
    choosing : Out(1)
        No word may enter until SOFTMAX's threshold is known to another digit.
    table : In(Exp2WriteSignature)

    Parameters
    ----------
    config : Config
    """

    def __init__(self, config):
        self._config = config
        lanes = config.array_n
        super().__init__(
            {
                "job": In(Job),
                "clear": In(1),
                "open": In(1),
                "i": In(stream.Signature(config.line_bits)),
                "records": In(stream.Signature(NormRecord)),
                "o": Out(stream.Signature(result_word(config))),
                "moments": In(data.ArrayLayout(Moments, lanes)),
                "scales": In(data.ArrayLayout(RowFactor, lanes)),
                "sums": Out(20).array(lanes),
                "choosing": Out(1),
                "table": In(Exp2WriteSignature),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        job = self.job
        m.submodules.entry = entry = Steps(1)
        m.submodules.exponential = exponential = Steps(SoftmaxLane.stages)
        m.submodules.normalise = normalise = Steps(NormaliseLane.stages)
        m.submodules.requantise = requantise = Steps(RequantiseLane.stages)
        hard = self._config.hard_attention
        counting, open_ = Signal(), Signal()
        m.d.comb += open_.eq(self.open)
        if hard:
            search, counted = self._search(m, entry, counting, open_)

        # Gamma is needed first, so LAYERNORM takes its record then; QUANTIZE when it multiplies.
        wants_record, starved, finished, advance = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            wants_record.eq(
                Mux(job.layernorm, normalise.valid[NormaliseLane.gamma_stage - 1], job.quantize & entry.valid)
            ),
            starved.eq(wants_record & ~self.records.valid),
            finished.eq(exponential.valid[-1] | requantise.valid[-1]),
            self.o.valid.eq(finished & ~starved),
            advance.eq((~finished | self.o.ready) & ~starved),
            self.records.ready.eq(wants_record & advance),
            self.i.ready.eq(open_ & advance),
            entry.enter.eq(self.i.valid & open_),
            exponential.enter.eq(entry.valid & job.softmax & ~counting),
            normalise.enter.eq(entry.valid & job.layernorm),
            requantise.enter.eq(Mux(job.layernorm, normalise.valid[-1], entry.valid & job.quantize)),
        ]
        for steps in (entry, exponential, normalise, requantise):
            m.d.comb += steps.advance.eq(advance)

        at_gamma, at_beta, mult = self._carry_records(m, normalise.step, requantise.step)
        for lane in range(self._config.array_n):
            x = Signal(signed(16), name=f"x_{lane}", reset_less=True)
            with m.If(entry.step):
                m.d.sync += x.eq(self.i.payload.word_select(lane, 16))

            m.submodules[f"softmax_{lane}"] = softmax = SoftmaxLane(search=hard)
            if hard:
                m.d.comb += [
                    softmax.threshold.hard.eq(job.hard),
                    softmax.threshold.whole_sum.eq(job.whole_sum),
                    softmax.threshold.most.eq(job.most),
                    softmax.threshold.take.eq(counted.step[1:]),
                    softmax.threshold.step.eq(search.step),
                ]
            wiring.connect(m, softmax.table, wiring.flipped(self.table))
            m.d.comb += [
                softmax.score.eq(x),
                softmax.maximum.eq(self.moments[lane].sum[:16].as_signed()),
                softmax.step.eq(exponential.step | counted.step[0] if hard else exponential.step),
                softmax.accumulate.eq(exponential.valid[-1] & advance),
                softmax.clear.eq(self.clear),
                self.sums[lane].eq(softmax.sum),
            ]
            m.submodules[f"normalise_{lane}"] = norm = NormaliseLane()
            m.d.comb += [
                norm.x.eq(x),
                norm.n.eq(job.words),
                norm.sum.eq(self.moments[lane].sum),
                norm.scale.eq(self.scales[lane]),
                norm.gamma.eq(at_gamma.gamma),
                norm.gamma_shift.eq(job.gamma_shift),
                norm.step.eq(normalise.step),
            ]
            m.submodules[f"requantise_{lane}"] = requant = RequantiseLane()
            shifted = saturate(norm.o + at_beta.beta, signed(16))
            m.d.comb += [
                requant.y.eq(Mux(job.layernorm, shifted, x)),
                requant.mult.eq(mult),
                requant.shift.eq(job.mult_shift),
                requant.wide.eq(job.wide),
                requant.step.eq(requantise.step),
                self.o.payload.word16[lane].eq(requant.word16),
                self.o.payload.word8[lane].eq(Mux(job.softmax, softmax.probability, requant.word8)),
                self.o.payload.residue[lane].eq(requant.residue),
            ]
        return m

    def _search(self, m, entry, counting, open_):
        """The search for SOFTMAX's threshold, and the steps of words that are counted for it: stage 0 is the softmax's."""
        m.submodules.search = search = ThresholdSearch()
        m.submodules.counted = counted = Steps(3)
        m.d.comb += [
            search.start.eq(self.clear),
            search.hard.eq(self.job.hard),
            search.words.eq(self.job.words),
            search.entered.eq(entry.step),
            search.uncounted.eq(entry.valid | counted.valid[:2].any()),
            counting.eq(search.counting),
            open_.eq(self.open & search.open),
            counted.enter.eq(entry.valid & counting),
            counted.advance.eq(1),  # what is counted has nothing behind it
            self.choosing.eq(~search.open),
        ]
        return search, counted

    def _carry_records(self, m, normalise, requantise):
        """Norm records follow their words: those at gamma and at beta, and the multiplier of the one to requantise."""
        record = self.records.payload
        carried = [
            Signal(NormRecord, name=f"record_{stage}", reset_less=True)
            for stage in range(NormaliseLane.gamma_stage, NormaliseLane.stages)
        ]
        for previous, value, step in zip([record, *carried], carried, normalise[NormaliseLane.gamma_stage :]):
            with m.If(step):
                m.d.sync += value.eq(previous)
        rest = data.View(NormRecord, Mux(self.job.layernorm, Cat(carried[-1]), Cat(record)))
        mult = Signal(16, reset_less=True)
        with m.If(requantise[0]):
            m.d.sync += mult.eq(rest.mult)
        flagged = [Signal(name=f"flagged_{stage}", reset_less=True) for stage in range(RequantiseLane.stages)]
        for previous, value, step in zip([rest.residue, *flagged], flagged, requantise):
            with m.If(step):
                m.d.sync += value.eq(previous)
        m.d.comb += self.o.payload.flagged.eq(flagged[-1])
        return carried[0], carried[-1], mult
