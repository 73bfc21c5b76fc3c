"""The vector engine."""

from amaranth.hdl import Cat, Elaboratable, Module, ResetInserter
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.engine.border import Border
from bertha.rtl.engine.signatures import ControlSide
from bertha.rtl.engine.state import EngineState
from bertha.rtl.isa import Engine, NormRecord, RangeRecord
from bertha.rtl.lanes.record_reader import RecordReader
from bertha.rtl.row_slots import RowSlots
from bertha.rtl.scratchpad.reader import LineReader
from bertha.rtl.scratchpad.writer import LineWriter
from bertha.rtl.signatures import Moments, RowFactor, TableWriteSignature, bank_write, read_port
from bertha.rtl.stream import Register, connect_streams
from bertha.rtl.vector.activity import Activity
from bertha.rtl.vector.lanes import Lanes, result_word
from bertha.rtl.vector.packer import Packer
from bertha.rtl.vector.row_scale import RowScale
from bertha.rtl.vector.row_writer import RowWriter
from bertha.rtl.vector.sequencer import Sequencer
from bertha.rtl.vector.table_loader import TableLoader

__all__ = ["VectorEngine"]


class VectorEngine(wiring.Component):
    """Executes SOFTMAX, LAYERNORM, QUANTIZE, FACTORS, RANGES, TABLE and VECTOR_WAIT, one after another.

    Lane r owns row r of a panel. A word a cycle goes through the lanes, unless it completes more
    than one line: LAYERNORM that writes int16 and int8 takes three cycles for two words. SOFTMAX that keeps some
    keys only goes through its words several times. See docs/architecture.md for the arithmetic.

    Ports
    -----
    control : In(ControlSide)
        A post is given after the command's last write has been taken by the scratchpad. Faults:
        ILLEGAL_COMMAND for words that are odd, none or more than 4096, for more kept keys than words (for any
        without `hard_attention`) and for a slot that doesn't exist, before anything is done; SCRATCHPAD_RANGE. An abort resets the engine.
    source, params : Out(read_port)
    write : Out(stream of bank_write)
    statistics_read, factor_write, range_write : Out
        The engine's side of the row slots.
    piecewise_write : Out(TableWriteSignature)
        Entries of the table that the GEMM epilogue holds.
    state : Out(EngineState)
        With cycle counters only.

    Parameters
    ----------
    config : Config
    """

    READS, WRITES = ("source", "params"), ("write",)

    def __init__(self, config):
        self._config = config
        moments = data.ArrayLayout(Moments, config.array_n)
        factors = data.ArrayLayout(RowFactor, config.array_n)
        ranges = data.ArrayLayout(RangeRecord, config.array_n)
        super().__init__(
            {
                "control": In(ControlSide),
                "source": Out(read_port(config)),
                "params": Out(read_port(config)),
                "write": Out(stream.Signature(bank_write(config))),
                "statistics_read": Out(RowSlots.read_signature(config, moments)),
                "factor_write": Out(RowSlots.write_signature(config, factors)),
                "range_write": Out(RowSlots.write_signature(config, ranges)),
                "piecewise_write": Out(TableWriteSignature),
            }
            | ({"state": Out(EngineState)} if config.cycle_counters else {})
        )

    def elaborate(self, platform) -> Elaboratable:
        m = Module()
        config = self._config
        m.submodules.border = border = Border(config, Engine.VECTOR)
        engine = border.engine
        m.submodules.sequencer = sequencer = Sequencer(config)
        m.submodules.source = source = LineReader(config)
        m.submodules.params = params = LineReader(config)
        m.submodules.records = records = RecordReader(config, NormRecord)
        m.submodules.row_scale = row_scale = RowScale(config)
        m.submodules.lanes = lanes = Lanes(config)
        m.submodules.packer = packer = Packer(config)
        m.submodules.writer = writer = LineWriter(config)
        m.submodules.row_writer = row_writer = RowWriter(config)
        m.submodules.table_loader = table_loader = TableLoader(config)
        job = sequencer.job

        # Commands and semaphores
        wiring.connect(m, wiring.flipped(self.control), border.control)
        connect_streams(m, engine.command, sequencer.command)
        connect_streams(m, sequencer.post, engine.post)
        m.d.comb += [
            engine.busy.eq(sequencer.active),
            engine.active.eq(sequencer.active),
            engine.index.eq(job.index),
            engine.fault.valid.eq(sequencer.fault.valid),
            engine.fault.payload.eq(sequencer.fault.payload),
            sequencer.range_fault.eq(source.fault.valid | params.fault.valid | writer.fault.valid),
        ]

        # Scratchpad
        wiring.connect(m, source.port, wiring.flipped(self.source))
        wiring.connect(m, params.port, wiring.flipped(self.params))
        connect_streams(m, writer.port, self.write)
        connect_streams(m, sequencer.source, source.i)
        connect_streams(m, sequencer.params, params.i)
        connect_streams(m, params.o, records.i)
        connect_streams(m, records.o, lanes.records)
        # The lanes move as a whole: the packer's ready must not reach all of their registers at once.
        m.submodules.results = results = Register(result_word(config))
        connect_streams(m, lanes.o, results.i)
        connect_streams(m, results.o, packer.i)
        connect_streams(m, packer.o, writer.i)
        m.d.comb += [
            lanes.i.payload.eq(source.o.payload),
            table_loader.i.payload.eq(source.o.payload),
            row_writer.i.payload.eq(source.o.payload),
        ]
        with m.If(job.table):
            m.d.comb += [table_loader.i.valid.eq(source.o.valid), source.o.ready.eq(table_loader.i.ready)]
        with m.Elif(job.factors | job.ranges):
            m.d.comb += [row_writer.i.valid.eq(source.o.valid), source.o.ready.eq(row_writer.i.ready)]
        with m.Else():
            m.d.comb += [lanes.i.valid.eq(source.o.valid), source.o.ready.eq(lanes.i.ready)]

        # Control
        m.d.comb += [
            lanes.job.eq(job),
            lanes.clear.eq(sequencer.start),
            lanes.open.eq(sequencer.open),
            packer.job.eq(job),
            packer.start.eq(sequencer.start),
            records.restart.eq(sequencer.start),
            table_loader.start.eq(sequencer.start),
            table_loader.piecewise.eq(job.piecewise),
            sequencer.packing.eq(packer.busy),
            sequencer.writing.eq(~writer.idle),
            sequencer.table_written.eq(table_loader.done),
            sequencer.rows_written.eq(row_writer.factor_write.enable | row_writer.range_write.enable),
            sequencer.scaled.eq(row_scale.done),
        ]

        # Rows
        m.d.comb += [
            self.statistics_read.slot.eq(job.slot),
            row_scale.start.eq(sequencer.scale),
            row_scale.softmax.eq(job.softmax),
            row_scale.words.eq(job.words),
            row_scale.epsilon.eq(job.epsilon),
            row_scale.moments.eq(self.statistics_read.lanes),
            lanes.moments.eq(self.statistics_read.lanes),
            row_writer.slot.eq(job.slot),
            row_writer.ranges.eq(job.ranges),
            row_writer.take.eq(row_scale.done & job.softmax),
            row_writer.factors.eq(row_scale.factors),
            lanes.scales.eq(row_scale.factors),
        ]
        for lane in range(config.array_n):
            m.d.comb += row_scale.probabilities[lane].eq(lanes.sums[lane])

        # Tables, factors and ranges
        wiring.connect(m, table_loader.exp2, lanes.table)
        wiring.connect(m, table_loader.segments, wiring.flipped(self.piecewise_write))
        wiring.connect(m, row_writer.factor_write, wiring.flipped(self.factor_write))
        wiring.connect(m, row_writer.range_write, wiring.flipped(self.range_write))
        if config.cycle_counters:
            m.submodules.activity = activity = Activity()
            ports = (self.source.request, self.params.request, self.write)
            m.d.comb += [
                activity.busy.eq(sequencer.active),
                activity.start.eq(sequencer.start),
                activity.source_valid.eq(source.o.valid),
                activity.source_ready.eq(source.o.ready),
                activity.source_idle.eq(source.idle),
                activity.line_leaves.eq(packer.o.valid & packer.o.ready),
                activity.scale.eq(sequencer.scale),
                activity.scaled.eq(row_scale.done),
                activity.choosing.eq(lanes.choosing),
                activity.entry.eq(table_loader.exp2.enable | table_loader.segments.enable),
                activity.refused.eq(Cat(port.valid & ~port.ready for port in ports).any()),
                self.state.eq(activity.state),
            ]
        return ResetInserter(self.control.abort)(m)
