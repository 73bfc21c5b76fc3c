"""Packs result words into lines."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.signatures import LINE_ADDRESS_BITS, line_write
from bertha.rtl.vector.job import Job
from bertha.rtl.vector.lanes import result_word

__all__ = ["Packer"]


class Packer(wiring.Component):
    """Writes the int16 word, the int8 word and the residue word of each result, as the job wants them.

    An int16 word is a line; 8-bit words go two a line, and residue words of flagged words are
    packed one after another, an odd last one with zeros beside it. A line a cycle, so a word
    takes as many cycles as it completes lines, at least one.

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
        word8, residue = word.word8.as_value(), word.residue.as_value()
        word16_addr, word8_addr, residue_addr = (
            Signal(LINE_ADDRESS_BITS, name=name, reset_less=True)
            for name in ("addr16", "addr8", "addr_residue")
        )
        left = Signal(13)  # words
        running, flushing = Signal(), Signal()
        odd8, odd_residue = Signal(), Signal()  # a word is held that waits for its neighbour
        held8 = Signal(len(word8), reset_less=True)
        held_residue = Signal(len(residue), reset_less=True)
        wrote16, wrote8 = Signal(), Signal()  # of the word at `i`

        # A line of each kind that the word at `i` completes and that isn't written yet, and the
        # one that is written now.
        need16, need8, need_residue, keep_residue = Signal(), Signal(), Signal(), Signal()
        do16, do8, do_residue, do_flush, do_pop = Signal(), Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            keep_residue.eq(job.residue & word.flagged),
            need16.eq(job.write16 & ~wrote16),
            need8.eq(job.write8 & odd8 & ~wrote8),
            need_residue.eq(keep_residue & odd_residue),
            self.o.valid.eq(flushing | (self.i.valid & (need16 | need8 | need_residue))),
            do_flush.eq(flushing & self.o.ready),
            do16.eq(self.i.valid & need16 & self.o.ready),
            do8.eq(self.i.valid & ~need16 & need8 & self.o.ready),
            do_residue.eq(self.i.valid & ~need16 & ~need8 & need_residue & self.o.ready),
            # Ready when at most one line is left to write, and it goes now.
            self.i.ready.eq(
                ~(need16 & need8)
                & ~(need16 & need_residue)
                & ~(need8 & need_residue)
                & (self.o.ready | ~(need16 | need8 | need_residue))
            ),
            do_pop.eq(self.i.valid & self.i.ready),
            self.o.payload.index.eq(job.index),
        ]
        with m.If(~flushing & need16):
            m.d.comb += [
                self.o.payload.addr.eq(word16_addr),
                self.o.payload.data.eq(word.word16.as_value()),
            ]
        with m.Elif(~flushing & need8):
            m.d.comb += [
                self.o.payload.addr.eq(word8_addr),
                self.o.payload.data.eq(Cat(held8, word8)),
            ]
        with m.Else():
            m.d.comb += [
                self.o.payload.addr.eq(residue_addr),
                self.o.payload.data.eq(Cat(held_residue, Mux(flushing, 0, residue))),
            ]

        with m.If(do16):
            m.d.sync += [word16_addr.eq(word16_addr + 1), wrote16.eq(1)]
        with m.If(do8):
            m.d.sync += [word8_addr.eq(word8_addr + 1), wrote8.eq(1)]
        with m.If(do_residue):
            m.d.sync += residue_addr.eq(residue_addr + 1)
        with m.If(do_pop):
            m.d.sync += [
                wrote16.eq(0),
                wrote8.eq(0),
                odd8.eq(~odd8),
                odd_residue.eq(odd_residue ^ keep_residue),
                left.eq(left - 1),
            ]
            with m.If(~odd8):
                m.d.sync += held8.eq(word8)
            with m.If(keep_residue & ~odd_residue):
                m.d.sync += held_residue.eq(residue)
            with m.If(left == 1):
                m.d.sync += [running.eq(0), flushing.eq(odd_residue ^ keep_residue)]
        with m.If(do_flush):
            m.d.sync += flushing.eq(0)
        with m.If(self.start):
            m.d.sync += [
                word16_addr.eq(job.dst16_addr),
                word8_addr.eq(job.dst8_addr),
                residue_addr.eq(job.residue_addr),
                left.eq(job.words),
                running.eq(job.softmax | job.layernorm | job.quantize),
                odd8.eq(0),
                odd_residue.eq(0),
            ]
        m.d.comb += self.busy.eq(running | flushing)
        return m
