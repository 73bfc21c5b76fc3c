"""The drain stream's arithmetic: from int32 columns to the words that are written."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.arithmetic import residue, saturate, split_wide
from bertha.rtl.gemm.column import ACCUMULATOR_BITS
from bertha.rtl.gemm.packer import WORD_LATENCY, Packer
from bertha.rtl.gemm.piecewise import Piecewise
from bertha.rtl.gemm.requantise import Requantise
from bertha.rtl.gemm.statistics import RowStatistics
from bertha.rtl.gemm.tile import EpilogueTile, PackerTile
from bertha.rtl.isa import ColumnRecord, RangeRecord, Statistics, semaphore_layout
from bertha.rtl.lanes.rounding_shift import RoundingShift
from bertha.rtl.row_slots import RowSlots
from bertha.rtl.signatures import FaultSignature, Moments, RowFactor, TableWriteSignature, bank_write
from bertha.rtl.stream import Queue

__all__ = ["Epilogue"]

ARITHMETIC_LATENCY = Requantise.latency + Piecewise.latency + 1  # the residual's addition
WORDS_IN_FLIGHT = 16
"""Words between the drain and the packer. A word may leave a cycle after the arithmetic, and two cycles
later (`room`, `has_room`) another one may take its place. LUT RAM is 16 deep."""
assert ARITHMETIC_LATENCY + 3 <= WORDS_IN_FLIGHT, "else a word a cycle doesn't flow"


class _Step(data.Struct):
    """What goes along with a word through the arithmetic."""

    valid: 1
    first: 1
    final: 1
    piecewise: 1
    residual: 1
    out16: 1
    out_wide: 1
    residue: 1
    post_shift: 4
    statistics: 2
    statistics_init: 1
    slot: 8


class Epilogue(wiring.Component):
    """Requantisation, piecewise function, residual, mask, statistics and packing, in this order.

    A column a cycle; the arithmetic is that of docs/architecture.md, "Epilogue". The arithmetic never
    stops: a word enters only when there is room for it in front of the packer, and its residual is
    there. What is behind that queue doesn't stop either: a word leaves it when the packer has room.

    Ports
    -----
    word : In(stream of N x int32)
        Columns of the tiles, N a tile.
    tile : In(stream of EpilogueTile)
    packer_tile : In(stream of PackerTile)
        Of the same tiles, each there when `tile` is.
    record : In(stream of ColumnRecord)
        N for every tile with `params`.
    residual : In(stream of lines)
        `columns` for every tile with `residual`.
    factor_read, range_read, statistics_continue, statistics_write : Out
        To the row slots.
    table : In(TableWriteSignature)
    port : Out(stream of bank_write)
    post : Out(stream of semaphore_layout)
        post1 of every finished tile, enabled or not.
    fault : Out(FaultSignature)
    """

    def __init__(self, config):
        self._config = config
        n = config.array_n
        moments = data.ArrayLayout(Moments, n)
        factors = data.ArrayLayout(RowFactor, n)
        ranges = data.ArrayLayout(RangeRecord, n)
        super().__init__(
            {
                "word": In(stream.Signature(data.ArrayLayout(signed(ACCUMULATOR_BITS), n))),
                "tile": In(stream.Signature(EpilogueTile)),
                "packer_tile": In(stream.Signature(PackerTile)),
                "record": In(stream.Signature(ColumnRecord)),
                "residual": In(stream.Signature(config.line_bits)),
                "factor_read": Out(RowSlots.read_signature(config, factors)),
                "range_read": Out(RowSlots.read_signature(config, ranges)),
                "statistics_continue": Out(RowSlots.enabled_read_signature(config, moments)),
                "statistics_write": Out(RowSlots.write_signature(config, moments)),
                "table": In(TableWriteSignature),
                "port": Out(stream.Signature(bank_write(config))),
                "post": Out(stream.Signature(semaphore_layout)),
                "fault": Out(FaultSignature),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.packer = packer = Packer(self._config)
        wiring.connect(m, wiring.flipped(self.packer_tile), packer.tile)
        wiring.connect(m, packer.port, wiring.flipped(self.port))
        wiring.connect(m, packer.post, wiring.flipped(self.post))
        wiring.connect(m, packer.fault, wiring.flipped(self.fault))

        m.submodules.requantise = requantise = Requantise(self._config.array_n)
        has_room, has_residual = Signal(), Signal()  # known a cycle ahead
        taken, masked = self._take_words(m, requantise, has_room, has_residual)
        stages = _stages(m, taken, ARITHMETIC_LATENCY)
        entered, requantised = stages[0], stages[requantise.latency - 1]
        # Stages that hold nothing don't move. The first one's signal comes late, so it takes what may be a word.
        moves = Cat(self.word.valid, *(stage.valid for stage in stages))
        m.d.comb += requantise.step.eq(moves[: requantise.latency])

        m.submodules.piecewise = piecewise = Piecewise(self._config.array_n)
        wiring.connect(m, wiring.flipped(self.table), piecewise.table)
        m.d.comb += [
            piecewise.enable.eq(requantised.piecewise),
            piecewise.i.eq(requantise.o),
            piecewise.step.eq(moves[requantise.latency :][: piecewise.latency]),
        ]
        step, last = stages[-2:]

        for stage in range(requantise.latency + piecewise.latency):
            later = Signal(self._config.array_n, name=f"masked_{stage}", reset_less=True)
            m.d.sync += later.eq(masked)
            masked = later
        summed = self._add_residuals(m, piecewise.o, masked, step, taken.valid & taken.residual, has_residual)

        m.submodules.statistics = statistics = RowStatistics(self._config)
        wiring.connect(m, statistics.carry_on, wiring.flipped(self.statistics_continue))
        wiring.connect(m, statistics.write, wiring.flipped(self.statistics_write))
        m.d.comb += [
            statistics.i.eq(summed),
            statistics.valid.eq(step.valid),
            statistics.first.eq(step.first),
            statistics.final.eq(step.final),
            statistics.kind.eq(step.statistics),
            statistics.init.eq(step.statistics_init),
            statistics.slot.eq(step.slot),
        ]
        self._pass_on(m, summed, last, entered.valid, has_room, packer)
        return m

    def _take_words(self, m, requantise, has_room, has_residual):
        """A tile's words enter the arithmetic one by one. Returns the _Step of the one that does, and which of its
        lanes are masked.

        The next tile is loaded in the cycle in which a tile's last column is taken. Its row factors and ranges were
        read when it had become the next one, the cycle before or earlier.
        """
        n = self._config.array_n
        tile, tile_valid, next_known = Signal(EpilogueTile), Signal(), Signal()
        factors = Signal(requantise.factors.shape(), reset_less=True)
        ranges = Signal(self.range_read.lanes.shape(), reset_less=True)
        column = Signal(range(n))
        key = Signal(16, reset_less=True)
        within = Signal()  # the column is one of those that are written
        may_take, do_take, is_last = Signal(), Signal(), Signal()
        may_load, do_load = Signal(), Signal()
        m.d.comb += [
            may_take.eq(
                tile_valid
                & has_room
                & (~tile.params | self.record.valid)
                & (~tile.residual | ~within | has_residual)
            ),
            self.word.ready.eq(may_take),
            do_take.eq(may_take & self.word.valid),
            self.record.ready.eq(do_take & tile.params),
            is_last.eq(column == n - 1),
            may_load.eq(~tile_valid | (do_take & is_last)),
            do_load.eq(may_load & next_known),
            self.tile.ready.eq(do_load),
            self.factor_read.slot.eq(self.tile.payload.slot),
            self.range_read.slot.eq(self.tile.payload.slot),
        ]
        # Right when it is looked at: tiles are loaded N cycles or more apart.
        m.d.sync += next_known.eq(self.tile.valid)
        with m.If(do_take):
            m.d.sync += [
                column.eq(Mux(is_last, 0, column + 1)),
                key.eq(key + 1),
                within.eq(is_last | (column + 1 < tile.columns)),
            ]
        with m.If(may_load):
            m.d.sync += [
                tile.eq(self.tile.payload),
                factors.eq(self.factor_read.lanes),
                ranges.eq(self.range_read.lanes),
                key.eq(self.tile.payload.first_key),
                tile_valid.eq(next_known),
                within.eq(1),
            ]

        record = self.record.payload
        from_record = tile.params & ~tile.uniform
        m.d.comb += [
            requantise.acc.eq(self.word.payload),
            requantise.bias.eq(Mux(tile.params, record.bias, 0)),
            requantise.mult.eq(Mux(from_record, record.mult, tile.mult)),
            requantise.shift.eq(Mux(from_record, record.shift, tile.shift)),
            requantise.row_factor.eq(tile.row_factor),
            requantise.factors.eq(factors),
            requantise.gain.eq(tile.gain),
        ]
        step = Signal(_Step)
        of_tile = ("piecewise", "residual", "out16", "out_wide", "statistics", "statistics_init", "slot")
        m.d.comb += [step[name].eq(tile[name]) for name in of_tile]
        m.d.comb += [
            step.valid.eq(do_take & within),
            step.first.eq(column == 0),
            step.final.eq(column == tile.columns - 1),
            # Of a result in two planes every column has a word there.
            step.residue.eq(tile.out_wide | (tile.residue & tile.params & record.residue)),
            # A 16-bit word is written as it is.
            step.post_shift.eq(Mux(tile.out16, 0, Mux(from_record, record.post_shift, tile.post_shift))),
        ]
        masked = [
            (tile.params & record.mask)
            | (tile.ranges & ((key < ranges[lane].first) | (key >= ranges[lane].last)))
            for lane in range(n)
        ]
        return step, Cat(*masked)

    def _add_residuals(self, m, words, masked, step, do_promise, has_residual):
        """`words` with their residuals and masked, a cycle later. Drives `has_residual`."""
        m.submodules.residuals = lines = Queue(self._config.line_bits, WORDS_IN_FLIGHT)
        residuals = Signal(range(WORDS_IN_FLIGHT + 1))  # that no word on its way will take
        do_add = Signal()
        m.d.comb += [
            lines.i.payload.eq(self.residual.payload),
            lines.i.valid.eq(self.residual.valid),
            self.residual.ready.eq(lines.i.ready),
            lines.o.ready.eq(step.valid & step.residual),
            do_add.eq(self.residual.valid & self.residual.ready),
        ]
        m.d.sync += [
            residuals.eq(residuals + do_add - do_promise),
            has_residual.eq(do_add | (residuals > 1) | ((residuals == 1) & ~do_promise)),
        ]
        summed = Signal(words.shape(), reset_less=True)
        is_max = step.statistics == Statistics.MAX
        for lane in range(self._config.array_n):
            residual = lines.o.payload.word_select(lane, 16).as_signed()
            total = Signal(signed(17), name=f"total_{lane}")
            limited = saturate(total, signed(16))
            # -32768 is a masked score and no other: where scores are wanted, the lowest is one above.
            is_lowest = total[16] & (~total[15] | ~total[:15].any())
            m.d.comb += total.eq(words[lane] + Mux(step.residual, residual, 0))
            word = Cat(limited[0] | (is_max & is_lowest), limited[1:]).as_signed()
            with m.If(step.valid):
                m.d.sync += summed[lane].eq(Mux(masked[lane], -(1 << 15), word))
        return summed

    def _pass_on(self, m, words, step, entered, has_room, packer):
        """From the arithmetic through a queue to the packer, shifted and limited to what is written.

        Behind the queue nothing stops either: a word leaves it when the packer has room. Drives `has_room`.
        """
        n = self._config.array_n
        result = data.StructLayout(
            {"lanes": words.shape(), "final": 1, "out16": 1, "residue": 1, "out_wide": 1, "post_shift": 4}
        )
        of_word = ("final", "out16", "residue", "out_wide", "post_shift")
        m.submodules.results = results = Queue(result, WORDS_IN_FLIGHT)
        room = Signal(range(WORDS_IN_FLIGHT + 1), init=WORDS_IN_FLIGHT)
        do_pop = Signal()
        m.d.comb += [
            results.i.valid.eq(step.valid),
            results.i.payload.lanes.eq(words),
            *(results.i.payload[name].eq(step[name]) for name in of_word),
            results.o.ready.eq(packer.has_room),
            do_pop.eq(results.o.valid & packer.has_room),
        ]
        # `room` doesn't know yet of the words that were taken in this cycle and in the last one.
        m.d.sync += [room.eq(room - entered + do_pop), has_room.eq(room > 2)]

        popped = Signal(result, reset_less=True)
        with m.If(do_pop):
            m.d.sync += popped.eq(results.o.payload)
        # What the packer gets with the word, in step with the stages above.
        flags = Cat(do_pop, *(results.o.payload[name] for name in ("final", "out16", "residue", "out_wide")))
        valids = []
        for stage in range(WORD_LATENCY):
            later = Signal(5, name=f"flags_{stage}")
            m.d.sync += later.eq(flags)
            if stage == WORD_LATENCY - 2:
                out16, out_wide = later[2], later[4]
            flags = later
            valids.append(later[0])
        shifted = []
        for lane in range(n):
            m.submodules[f"post_shift_{lane}"] = unit = RoundingShift(16, 16, shift_bits=4)
            m.d.comb += [
                unit.value.eq(popped.lanes[lane]),
                unit.shift.eq(popped.post_shift),
                unit.step.eq(Cat(valids[: RoundingShift.latency])),
            ]
            shifted.append(unit.o)
        word = Signal(self._config.line_bits, reset_less=True)
        narrow = Cat(*(saturate(value, signed(8)) for value in shifted), *map(residue, shifted))
        planes = Cat(*(plane for pair in zip(*map(split_wide, shifted)) for plane in pair))
        with m.If(valids[-2]):
            m.d.sync += word.eq(Mux(out16, Cat(shifted), Mux(out_wide, planes, narrow)))
        m.d.comb += [
            Cat(packer.valid, packer.final, packer.out16, packer.flagged).eq(flags[:4]),
            packer.word.eq(word),
        ]


def _stages(m, step, cycles):
    """`step` 1, 2, .. `cycles` cycles later."""
    stages = []
    for cycle in range(1, cycles + 1):
        later = Signal(_Step, name=f"step_{cycle}")
        m.d.sync += later.eq(step)
        step = later
        stages.append(step)
    return stages
