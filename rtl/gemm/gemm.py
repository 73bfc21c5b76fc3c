"""The GEMM engine: wires sequencer, readers, feeder, array, combiner, drain queue and epilogue."""

from amaranth.hdl import Cat, Elaboratable, Module, ResetInserter, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from bertha.rtl.engine.border import Border
from bertha.rtl.engine.signatures import ControlSide
from bertha.rtl.engine.state import EngineState
from bertha.rtl.gemm.activity import Activity
from bertha.rtl.gemm.array import SystolicArray
from bertha.rtl.gemm.column import ACCUMULATOR_BITS
from bertha.rtl.gemm.combiner import PlaneCombiner
from bertha.rtl.gemm.epilogue import Epilogue
from bertha.rtl.gemm.feeder import Feeder
from bertha.rtl.gemm.sequencer import TileSequencer
from bertha.rtl.gemm.tile import PARAM_LINES, RECORDS_BITS, EpilogueTile, FeederTile, PackerTile
from bertha.rtl.isa import ColumnRecord, Engine, RangeRecord
from bertha.rtl.lanes.record_reader import RecordReader
from bertha.rtl.row_slots import RowSlots
from bertha.rtl.scratchpad.reader import LineReader
from bertha.rtl.signatures import LineRange, Moments, RowFactor, TableWriteSignature, bank_write, read_port
from bertha.rtl.stream import Queue

__all__ = ["GemmEngine"]

TILES_AHEAD = (
    4  # tiles whose operands are asked for before the array takes them; covers the latency at K = N = 4
)
TILES_IN_FLIGHT = 16  # tiles issued and not yet packed; K = N = 4 has about ten under way


class GemmEngine(wiring.Component):
    """Executes GEMM and GEMM_WAIT.

    Ports
    -----
    control : In(ControlSide)
        `active` when a word pair enters the array. An abort resets the engine.
    a, b, residual, params : Out(read_port)
    write : Out(stream of bank_write)
    factor_read, range_read, statistics_continue, statistics_write : Out
        To the row slots.
    table : In(TableWriteSignature)
        The piecewise table's entries.
    state : Out(EngineState)
        With cycle counters only.
    """

    READS, WRITES = ("a", "b", "residual", "params"), ("write",)

    def __init__(self, config):
        self._config = config
        moments = data.ArrayLayout(Moments, config.array_n)
        factors = data.ArrayLayout(RowFactor, config.array_n)
        ranges = data.ArrayLayout(RangeRecord, config.array_n)
        super().__init__(
            {
                "control": In(ControlSide),
                "a": Out(read_port(config)),
                "b": Out(read_port(config)),
                "residual": Out(read_port(config)),
                "params": Out(read_port(config)),
                "write": Out(stream.Signature(bank_write(config))),
                "factor_read": Out(RowSlots.read_signature(config, factors)),
                "range_read": Out(RowSlots.read_signature(config, ranges)),
                "statistics_continue": Out(RowSlots.enabled_read_signature(config, moments)),
                "statistics_write": Out(RowSlots.write_signature(config, moments)),
                "table": In(TableWriteSignature),
            }
            | ({"state": Out(EngineState)} if config.cycle_counters else {})
        )

    def elaborate(self, platform) -> Elaboratable:
        m = Module()
        config = self._config
        n = config.array_n
        m.submodules.sequencer = sequencer = TileSequencer(config)
        m.submodules.feeder = feeder = Feeder(config)
        m.submodules.array = array = SystolicArray(n)
        m.submodules.combiner = combiner = PlaneCombiner(n)
        m.submodules.epilogue = epilogue = Epilogue(config)
        m.submodules.records = records = RecordReader(config, ColumnRecord)
        m.submodules.border = border = Border(config, Engine.GEMM)
        engine = border.engine
        connect(m, flipped(self.control), border.control)
        connect(m, engine.command, sequencer.command)
        connect(m, sequencer.wait, engine.wait)

        faults = [sequencer.fault, epilogue.fault]
        readers = {}
        for name, sink in (
            ("a", feeder.a),
            ("b", feeder.b),
            ("residual", epilogue.residual),
            ("params", records.i),
        ):
            m.submodules[f"{name}_reader"] = reader = LineReader(config)
            m.submodules[f"{name}_ranges"] = ranges = Queue(LineRange, TILES_AHEAD)
            connect(m, getattr(sequencer, name), ranges.i)
            connect(m, ranges.o, reader.i)
            connect(m, reader.port, flipped(getattr(self, name)))
            connect(m, reader.o, sink)
            readers[name] = reader
            faults.append(reader.fault)
        connect(m, records.o, epilogue.record)
        for name, shape, depth, sink in (
            ("feeder", FeederTile, TILES_AHEAD, feeder.tile),
            ("epilogue", EpilogueTile, TILES_IN_FLIGHT, epilogue.tile),
            ("packer", PackerTile, TILES_IN_FLIGHT, epilogue.packer_tile),
        ):
            m.submodules[f"{name}_tiles"] = tiles = Queue(shape, depth)
            connect(m, getattr(sequencer, name), tiles.i)
            connect(m, tiles.o, sink)

        # The array can't be held up: a tile's last word pair enters it only when the drain queue
        # has room for the tile's N words.
        depth = max(2 * n, 16)
        word = data.ArrayLayout(signed(ACCUMULATOR_BITS), n)
        m.submodules.drain = drain = Queue(word, depth)
        room = Signal(range(depth + 1), init=depth)
        do_pop = Signal()
        connect(m, feeder.o, array.i)
        connect(m, array.o, combiner.i)
        connect(m, drain.o, epilogue.word)
        m.d.comb += [
            drain.i.payload.eq(combiner.o.word),
            drain.i.valid.eq(combiner.o.valid),
            feeder.room.eq(room >= n),
            do_pop.eq(drain.o.valid & drain.o.ready),
            engine.active.eq(feeder.active),
            engine.index.eq(feeder.index),
        ]
        with m.If(feeder.do_reserve):
            m.d.sync += room.eq(room - n + do_pop)
        with m.Else():
            m.d.sync += room.eq(room + do_pop)

        lines_read = Signal(RECORDS_BITS + (PARAM_LINES - 1).bit_length())
        m.d.sync += lines_read.eq(lines_read + (self.params.request.valid & self.params.request.ready))
        m.d.comb += feeder.records_read.eq(lines_read[-RECORDS_BITS:])

        connect(m, epilogue.port, flipped(self.write))
        connect(m, epilogue.factor_read, flipped(self.factor_read))
        connect(m, epilogue.range_read, flipped(self.range_read))
        connect(m, epilogue.statistics_continue, flipped(self.statistics_continue))
        connect(m, epilogue.statistics_write, flipped(self.statistics_write))
        connect(m, flipped(self.table), epilogue.table)

        # Both posts at once take one place, and the feeder looks a cycle before it posts.
        operands, results = feeder.post.payload, epilogue.post.payload
        unfinished = Signal(range(2 * TILES_IN_FLIGHT + TILES_AHEAD + 1))
        do_finish = Signal()
        m.d.comb += [
            feeder.post.ready.eq(engine.has_room),
            epilogue.post.ready.eq(engine.post.ready),
            engine.post.payload.post0.eq(operands),
            engine.post.payload.post1.eq(results),
            engine.post.payload.post0.enable.eq(operands.enable & feeder.post.valid),
            engine.post.payload.post1.enable.eq(results.enable & epilogue.post.valid),
            engine.post.valid.eq(feeder.post.valid | epilogue.post.valid),
            do_finish.eq(epilogue.post.valid & epilogue.post.ready),
            engine.hold.eq(sequencer.hold),
            engine.wait_index.eq(sequencer.index),
            engine.busy.eq(sequencer.busy | (unfinished != 0)),
        ]
        m.d.sync += unfinished.eq(unfinished + sequencer.do_issue - do_finish)
        for fault in reversed(faults):
            with m.If(fault.valid):
                m.d.comb += [engine.fault.valid.eq(1), engine.fault.payload.eq(fault.payload)]
        if config.cycle_counters:
            m.submodules.activity = activity = Activity()
            self._watch(m, activity, sequencer, feeder)
        return ResetInserter(self.control.abort)(m)

    def _watch(self, m, activity, sequencer, feeder):
        def refused(*ports):
            return Cat(port.valid & ~port.ready for port in ports).any()

        m.d.comb += [
            activity.active.eq(feeder.active),
            activity.tile_taken.eq(feeder.tile.ready),
            activity.tile_waits.eq(feeder.tile.valid),
            activity.has_lines.eq(feeder.a.valid & feeder.b.valid),
            activity.issuing.eq(sequencer.busy),
            activity.operand_refused.eq(refused(self.a.request, self.b.request)),
            activity.other_refused.eq(refused(self.residual.request, self.params.request, self.write)),
            self.state.eq(activity.state),
        ]
