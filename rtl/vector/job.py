"""What the sequencer tells the rest of the vector engine about the command that it works on."""

from amaranth.hdl import Module, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.isa import Opcode, Table, command_layout, semaphore_layout
from bertha.rtl.signatures import INDEX_BITS, LINE_ADDRESS_BITS, EngineCommand

__all__ = ["Job", "JobDecoder"]


class Job(data.Struct):
    """A decoded command. Exactly one of the first six members is set for a known opcode.

    `hard`: a SOFTMAX that keeps `kept` keys; `most` is one less.
    """

    softmax: unsigned(1)
    layernorm: unsigned(1)
    quantize: unsigned(1)
    factors: unsigned(1)
    ranges: unsigned(1)
    table: unsigned(1)
    piecewise: unsigned(1)
    write16: unsigned(1)
    write8: unsigned(1)
    residue: unsigned(1)
    wide: unsigned(1)
    hard: unsigned(1)
    whole_sum: unsigned(1)
    kept: unsigned(13)
    most: unsigned(12)
    slot: unsigned(8)
    words: unsigned(16)
    gamma_shift: unsigned(6)
    mult_shift: unsigned(6)
    epsilon: unsigned(32)
    src_addr: unsigned(LINE_ADDRESS_BITS)
    param_addr: unsigned(LINE_ADDRESS_BITS)
    dst16_addr: unsigned(LINE_ADDRESS_BITS)
    dst8_addr: unsigned(LINE_ADDRESS_BITS)
    residue_addr: unsigned(LINE_ADDRESS_BITS)
    index: unsigned(INDEX_BITS)
    post0: semaphore_layout
    post1: semaphore_layout


class JobDecoder(wiring.Component):
    """Decodes a vector command; combinational.

    Ports
    -----
    command : In(EngineCommand)
    job : Out(Job)
    """

    command: In(EngineCommand)
    job: Out(Job)

    def elaborate(self, platform) -> Module:
        m = Module()
        body = self.command.body
        fields = data.View(command_layout(Opcode.LAYERNORM), body)
        table = data.View(command_layout(Opcode.TABLE), body).table
        softmax = data.View(command_layout(Opcode.SOFTMAX), body)
        # Fields of one name lie at one place in all vector commands, so the layout of the command
        # that has most of them serves for all.
        job = self.job
        m.d.comb += [
            job.softmax.eq(fields.opcode == Opcode.SOFTMAX),
            job.layernorm.eq(fields.opcode == Opcode.LAYERNORM),
            job.quantize.eq(fields.opcode == Opcode.QUANTIZE),
            job.factors.eq(fields.opcode == Opcode.FACTORS),
            job.ranges.eq(fields.opcode == Opcode.RANGES),
            job.table.eq(fields.opcode == Opcode.TABLE),
            job.piecewise.eq(table == Table.PIECEWISE),
            job.write16.eq(job.layernorm & fields.write16),
            job.write8.eq(job.softmax | job.quantize | (job.layernorm & fields.write8)),
            job.residue.eq((job.layernorm | job.quantize) & fields.residue),
            job.wide.eq((job.layernorm | job.quantize) & fields.wide),
            job.hard.eq(job.softmax & (softmax.kept != 0)),
            job.whole_sum.eq(softmax.whole_sum),
            job.kept.eq(softmax.kept),
            job.most.eq(softmax.kept - 1),
            job.index.eq(self.command.index),
        ]
        for name in [
            "slot",
            "words",
            "gamma_shift",
            "mult_shift",
            "epsilon",
            "src_addr",
            "param_addr",
            "dst16_addr",
            "dst8_addr",
            "residue_addr",
            "post0",
            "post1",
        ]:
            m.d.comb += getattr(job, name).eq(getattr(fields, name))
        return m
