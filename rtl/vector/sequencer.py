"""Executes vector commands one after another."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.engine.posts import PostPair
from bertha.rtl.isa import EXP2_ENTRIES, MAXIMUM_WORDS, SEGMENTS, FaultReason
from bertha.rtl.signatures import EngineCommand, FaultSignature, LineRange
from bertha.rtl.vector.job import Job, JobDecoder
from bertha.rtl.vector.threshold import ROUNDS

__all__ = ["Sequencer"]


class Sequencer(wiring.Component):
    """Checks a command, starts its reads and the datapath, waits for its end and posts it.

    Nothing is read or written for a command that is at fault. After a fault nothing is taken or
    posted: the border sees to that.

    Ports
    -----
    command : In(stream of EngineCommand)
        Commands whose waits are taken.
    post : Out(stream of PostPair)
    fault : Out(FaultSignature)
        Not registered.
    active : Out(1)
        A command is being worked on: `job`.
    job : Out(Job)
        Stays from before `start` until the next command.
    start : Out(1)
        For one cycle before the first read.
    source, params : Out(stream of LineRange)
    range_fault : In(1)
        A reader or the writer found a range outside of the scratchpad.
    open : Out(1)
        Words may enter the lanes.
    scale : Out(1)
        Starts the row scale.
    scaled : In(1)
        The row scale is done; the factors of SOFTMAX are written a cycle later.
    rows_written, table_written, packing, writing : In(1)
        The state of the datapath: pulses for FACTORS' or RANGES' slot and TABLE's last entry, levels while
        words are packed and while the writer holds a line.

    Parameters
    ----------
    config : Config
    """

    def __init__(self, config):
        self._config = config
        super().__init__(
            {
                "command": In(stream.Signature(EngineCommand)),
                "post": Out(stream.Signature(PostPair)),
                "fault": Out(FaultSignature),
                "active": Out(1),
                "job": Out(Job),
                "start": Out(1),
                "source": Out(stream.Signature(LineRange)),
                "params": Out(stream.Signature(LineRange)),
                "range_fault": In(1),
                "open": Out(1),
                "scale": Out(1),
                "scaled": In(1),
                "rows_written": In(1),
                "table_written": In(1),
                "packing": In(1),
                "writing": In(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config, job = self._config, self.job
        m.submodules.decoder = decoder = JobDecoder()
        m.d.comb += decoder.command.eq(self.command.payload)

        streaming, bad_words, bad_kept, bad_slot, illegal = (Signal() for _ in range(5))
        row_records = Signal()
        m.d.comb += [
            row_records.eq(job.factors | job.ranges),
            streaming.eq(job.softmax | job.layernorm | job.quantize),
            bad_words.eq((job.words == 0) | job.words[0] | (job.words > MAXIMUM_WORDS)),
            bad_kept.eq(job.hard & (job.kept > job.words) if config.hard_attention else job.hard),
            bad_slot.eq(job.slot >= config.row_slots),
            illegal.eq(
                (streaming & bad_words)
                | bad_kept
                | ((job.softmax | job.layernorm | row_records) & bad_slot)
                | ~(streaming | row_records | job.table)
            ),
        ]

        entry_lines = {
            "exp2": 16 * EXP2_ENTRIES // config.line_bits,
            "piecewise": 32 * SEGMENTS // config.line_bits,
        }
        records_per_line = config.line_bits // 64
        m.d.comb += [
            self.source.payload.addr.eq(job.src_addr),
            self.source.payload.index.eq(job.index),
            self.params.payload.addr.eq(job.param_addr),
            self.params.payload.index.eq(job.index),
            self.params.payload.count.eq(
                (job.words + records_per_line - 1) >> (records_per_line - 1).bit_length()
            ),
            self.post.payload.post0.eq(job.post0),
            self.post.payload.post1.eq(job.post1),
        ]
        with m.If(job.table):
            m.d.comb += self.source.payload.count.eq(
                Mux(job.piecewise, entry_lines["piecewise"], entry_lines["exp2"])
            )
        with m.Elif(row_records):
            m.d.comb += self.source.payload.count.eq(2)
        with m.Else():
            m.d.comb += self.source.payload.count.eq(job.words)

        more_reads = Signal(range(ROUNDS + 1))  # passes over the source behind the one that is asked for
        refused = Signal()
        ready_to_normalise = Signal()
        m.d.comb += self.open.eq(~job.layernorm | ready_to_normalise)
        with m.If(self.start):
            m.d.sync += ready_to_normalise.eq(0)
        with m.Elif(self.scaled):
            m.d.sync += ready_to_normalise.eq(1)

        m.d.comb += self.active.eq(1)
        m.d.sync += self.scale.eq(0)
        with m.FSM():
            with m.State("FETCH"):
                m.d.comb += [self.active.eq(0), self.command.ready.eq(1)]
                with m.If(self.command.valid):
                    m.d.sync += job.eq(decoder.job)
                    m.next = "CHECK"
            with m.State("CHECK"):
                m.d.comb += [self.start.eq(~illegal), refused.eq(illegal)]
                m.d.sync += self.scale.eq(job.layernorm & ~illegal)
                if config.hard_attention:
                    m.d.sync += more_reads.eq(Mux(job.hard, ROUNDS, 0))
                m.next = "READ_SOURCE"
                with m.If(illegal):
                    m.next = "FETCH"
            # The slot's statistics are there from the next cycle on.
            with m.State("READ_SOURCE"):
                m.d.comb += self.source.valid.eq(1)
                with m.If(self.source.ready):
                    m.next = "WORK"
                    with m.If(job.layernorm | job.quantize):
                        m.next = "READ_PARAMS"
                    with m.Elif(more_reads != 0):
                        m.d.sync += more_reads.eq(more_reads - 1)
                        m.next = "READ_SOURCE"
            with m.State("READ_PARAMS"):
                m.d.comb += self.params.valid.eq(1)
                with m.If(self.params.ready):
                    m.next = "WORK"
            with m.State("WORK"):
                with m.If(job.softmax & ~self.packing):
                    m.d.sync += self.scale.eq(1)
                    m.next = "INVERT"
                with m.Elif(streaming & ~self.packing):
                    m.next = "DRAIN"
                with m.Elif(self.rows_written | self.table_written):
                    m.next = "POST"
            with m.State("INVERT"), m.If(self.rows_written):
                m.next = "DRAIN"
            with m.State("DRAIN"), m.If(~self.writing):
                m.next = "POST"
            with m.State("POST"):
                m.d.comb += self.post.valid.eq(1)
                with m.If(self.post.ready):
                    m.next = "FETCH"

        m.d.comb += [
            self.fault.valid.eq(refused | self.range_fault),
            self.fault.payload.index.eq(job.index),
            self.fault.payload.reason.eq(
                Mux(refused, FaultReason.ILLEGAL_COMMAND, FaultReason.SCRATCHPAD_RANGE)
            ),
        ]
        return m
