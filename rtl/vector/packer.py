"""Packs result words into lines."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.isa import MAXIMUM_WORDS
from bertha.rtl.lanes.panel_packer import PanelPacker
from bertha.rtl.selection import one_hot_select
from bertha.rtl.signatures import line_write
from bertha.rtl.stream import as_bits
from bertha.rtl.vector.job import Job
from bertha.rtl.vector.lanes import result_word

__all__ = ["Packer"]


class Packer(wiring.Component):
    """Writes the int16 word, the int8 word and the residue word of each result, as the job wants them.

    Three panels, each with its `PanelPacker`; to the residues belong the residue words of flagged words, or the low
    byte of every word that has two planes.
    A line a cycle, so a word takes as many cycles as it completes lines, at least one.

    Ports
    -----
    job : In(Job)
        Stays until `busy` is low.
    start : In(1)
        A command begins; it has `job.words` words, unless it has none.
    i : In(stream of `result_word`)
    o : Out(stream of `line_write`)
    busy : Out(1)
        From `start` until the last line is taken.

    Parameters
    ----------
    config : Config
    """

    def __init__(self, config):
        self._config = config
        super().__init__(
            {
                "job": In(Job),
                "start": In(1),
                "i": In(stream.Signature(result_word(config))),
                "o": Out(stream.Signature(line_write(config))),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        job, word = self.job, self.i.payload
        left = Signal(range(MAXIMUM_WORDS + 1))  # words
        do_pop = Signal()
        panels = []
        for name, base, part, wanted, wide in (
            ("word16", job.dst16_addr, word.word16, job.write16, 1),
            ("word8", job.dst8_addr, word.word8, job.write8, 0),
            ("residue", job.residue_addr, word.residue, job.wide | (job.residue & word.flagged), 0),
        ):
            m.submodules[name] = panel = PanelPacker(self._config, lines=MAXIMUM_WORDS)
            m.d.comb += [
                panel.base.eq(base),
                panel.word.eq(part.as_value()),
                panel.wide.eq(wide),
                panel.wanted.eq(wanted),
                panel.final.eq(left == 1),
                panel.enable.eq(do_pop),
            ]
            panels.append(panel)

        # Lines that the word at `i` completes and that aren't written yet; the first of them goes now.
        written, to_write, first = Signal(3), Signal(3), Signal(3)
        is_one = Signal()
        m.d.comb += [
            to_write.eq(Cat(panel.complete for panel in panels) & ~written),
            first.eq(to_write & -to_write),
            is_one.eq(to_write == first),  # or none
            self.o.valid.eq(self.i.valid & to_write.any()),
            as_bits(self.o.payload.addr).eq(one_hot_select(first, [panel.addr for panel in panels])),
            self.o.payload.data.eq(one_hot_select(first, [panel.line for panel in panels])),
            self.o.payload.index.eq(job.index),
            self.i.ready.eq(is_one & (self.o.ready | ~to_write.any())),
            do_pop.eq(self.i.valid & self.i.ready),
            self.busy.eq(left != 0),
        ]
        with m.If(do_pop):
            m.d.sync += [left.eq(left - 1), written.eq(0)]
        with m.Elif(self.o.valid & self.o.ready):
            m.d.sync += written.eq(written | first)
        with m.If(self.start):
            m.d.sync += left.eq(Mux(job.softmax | job.layernorm | job.quantize, job.words, 0))
        return m
