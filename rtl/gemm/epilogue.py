"""The drain stream's arithmetic: from int32 columns to the words that are written."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.arithmetic import residue, saturate, shift_round
from bertha.rtl.gemm.column import ACCUMULATOR_BITS
from bertha.rtl.gemm.packer import Packer
from bertha.rtl.gemm.piecewise import Piecewise
from bertha.rtl.gemm.requantize import Requantize
from bertha.rtl.gemm.statistics import RowStatistics
from bertha.rtl.gemm.tile import EpilogueTile, PackerTile
from bertha.rtl.isa import ColumnRecord, Statistics, semaphore_layout
from bertha.rtl.row_slots import RowSlots
from bertha.rtl.signatures import FaultSignature, Moments, RowFactor, TableWriteSignature, bank_write
from bertha.rtl.stream import Queue

__all__ = ["Epilogue"]

WORDS_IN_FLIGHT = 16
"""Words between the drain and the packer. A word may leave 12 cycles after it was taken (arithmetic
11, queue 1), and 2 cycles later (`room`, `has_room`) another one may take its place: 14 places let a
word a cycle flow. LUT RAM is 16 deep."""


class _Meta(data.Struct):
    """What goes along with a word through the pipeline."""

    valid: 1
    first: 1
    final: 1
    piecewise: 1
    residual: 1
    mask: 1
    out16: 1
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
    factor_read, statistics_continue, statistics_write : Out
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
        super().__init__(
            {
                "word": In(stream.Signature(data.ArrayLayout(signed(ACCUMULATOR_BITS), n))),
                "tile": In(stream.Signature(EpilogueTile)),
                "packer_tile": In(stream.Signature(PackerTile)),
                "record": In(stream.Signature(ColumnRecord)),
                "residual": In(stream.Signature(config.line_bits)),
                "factor_read": Out(RowSlots.read_signature(config, factors)),
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
        n = self._config.array_n

        # Tile context: the next one is loaded in the cycle in which a tile's last column is taken,
        # and its row factors are read in the same cycle.
        tile, tile_valid = Signal(EpilogueTile), Signal()
        column = Signal(range(n))
        within = Signal()  # the column is one of those that are written
        do_take, do_load, may_take = Signal(), Signal(), Signal()
        room = Signal(range(WORDS_IN_FLIGHT + 1), init=WORDS_IN_FLIGHT)
        has_room, has_residual = Signal(), Signal()  # known a cycle ahead
        m.d.comb += [
            may_take.eq(
                tile_valid
                & has_room
                & (~tile.params | self.record.valid)
                & (~tile.residual | ~within | has_residual)
            ),
            do_take.eq(may_take & self.word.valid),
            self.word.ready.eq(may_take),
            self.record.ready.eq(do_take & tile.params),
            do_load.eq(~tile_valid | (do_take & (column == n - 1))),
            self.tile.ready.eq(do_load),
            self.factor_read.slot.eq(Mux(do_load, self.tile.payload.slot, tile.slot)),
        ]
        with m.If(do_load):
            m.d.sync += [tile.eq(self.tile.payload), tile_valid.eq(self.tile.valid)]
        with m.If(do_take):
            m.d.sync += [
                column.eq(Mux(column == n - 1, 0, column + 1)),
                within.eq(column + 1 < tile.columns),
            ]
        with m.If(do_load):
            m.d.sync += within.eq(1)

        record = self.record.payload
        from_record = tile.params & ~tile.uniform
        post_shift = Mux(from_record, record.post_shift, tile.post_shift)
        m.submodules.requantize = requantize = Requantize(n)
        m.d.comb += [
            requantize.acc.eq(self.word.payload),
            requantize.bias.eq(Mux(tile.params, record.bias, 0)),
            requantize.mult.eq(Mux(from_record, record.mult, tile.mult)),
            requantize.shift.eq(Mux(from_record, record.shift, tile.shift)),
            requantize.row_factor.eq(tile.row_factor),
            requantize.factors.eq(self.factor_read.lanes),
            requantize.gain.eq(tile.gain),
        ]
        meta = Signal(_Meta)
        m.d.comb += [
            meta.valid.eq(do_take & within),
            meta.first.eq(column == 0),
            meta.final.eq(column == tile.columns - 1),
            meta.piecewise.eq(tile.piecewise),
            meta.residual.eq(tile.residual),
            meta.mask.eq(tile.params & record.mask),
            meta.out16.eq(tile.out16),
            meta.residue.eq(tile.residue & tile.params & record.residue),
            # A 16-bit word is written as it is.
            meta.post_shift.eq(Mux(tile.out16, 0, post_shift)),
            meta.statistics.eq(tile.statistics),
            meta.statistics_init.eq(tile.statistics_init),
            meta.slot.eq(tile.slot),
        ]

        def delayed(meta, cycles, name):
            for cycle in range(cycles):
                later = Signal(_Meta, name=f"{name}_{cycle}")
                m.d.sync += later.eq(meta)
                meta = later
            return meta

        meta = delayed(meta, 1, "entered")
        entered = meta.valid
        meta = delayed(meta, requantize.latency - 1, "requantized")
        m.submodules.piecewise = piecewise = Piecewise(n)
        wiring.connect(m, wiring.flipped(self.table), piecewise.table)
        m.d.comb += [
            piecewise.enable.eq(meta.piecewise),
            piecewise.i.eq(requantize.o),
        ]
        meta = delayed(meta, piecewise.latency, "piecewise")

        m.submodules.residuals = residual_lines = Queue(self._config.line_bits, WORDS_IN_FLIGHT)
        m.d.comb += [
            residual_lines.i.payload.eq(self.residual.payload),
            residual_lines.i.valid.eq(self.residual.valid),
            self.residual.ready.eq(residual_lines.i.ready),
            residual_lines.o.ready.eq(meta.valid & meta.residual),
        ]
        residuals = Signal(range(WORDS_IN_FLIGHT + 1))  # that no word on its way will take
        do_add, do_promise = Signal(), Signal()
        m.d.comb += [
            do_add.eq(self.residual.valid & self.residual.ready),
            do_promise.eq(do_take & within & tile.residual),
        ]
        m.d.sync += [
            residuals.eq(residuals + do_add - do_promise),
            has_residual.eq(do_add | (residuals > 1) | ((residuals == 1) & ~do_promise)),
        ]
        summed = Signal(data.ArrayLayout(signed(16), n), reset_less=True)
        is_max = meta.statistics == Statistics.MAX
        for lane in range(n):
            residual = residual_lines.o.payload.word_select(lane, 16).as_signed()
            total = Signal(signed(17), name=f"total_{lane}")
            limited = saturate(total, signed(16))
            # -32768 is a masked score and no other: where scores are wanted, the lowest is one above.
            is_lowest = total[16] & (~total[15] | ~total[:15].any())
            m.d.comb += total.eq(piecewise.o[lane] + Mux(meta.residual, residual, 0))
            m.d.sync += summed[lane].eq(
                Mux(meta.mask, -(1 << 15), Cat(limited[0] | (is_max & is_lowest), limited[1:]).as_signed())
            )
        meta = delayed(meta, 1, "summed")

        m.submodules.statistics = statistics = RowStatistics(self._config)
        wiring.connect(m, statistics.carry_on, wiring.flipped(self.statistics_continue))
        wiring.connect(m, statistics.write, wiring.flipped(self.statistics_write))
        m.d.comb += [
            statistics.i.eq(summed),
            statistics.valid.eq(meta.valid),
            statistics.first.eq(meta.first),
            statistics.final.eq(meta.final),
            statistics.kind.eq(meta.statistics),
            statistics.init.eq(meta.statistics_init),
            statistics.slot.eq(meta.slot),
        ]

        result = data.StructLayout(
            {"lanes": summed.shape(), "final": 1, "out16": 1, "residue": 1, "post_shift": 4}
        )
        m.submodules.results = results = Queue(result, WORDS_IN_FLIGHT)
        m.d.comb += [
            results.i.valid.eq(meta.valid),
            results.i.payload.lanes.eq(summed),
            results.i.payload.final.eq(meta.final),
            results.i.payload.out16.eq(meta.out16),
            results.i.payload.residue.eq(meta.residue),
            results.i.payload.post_shift.eq(meta.post_shift),
        ]
        m.submodules.packer = packer = Packer(self._config)
        # Three stages that never stop: popped, scaled, then limited to what is written.
        do_pop, popped_valid, scaled_valid = Signal(), Signal(), Signal()
        m.d.comb += [
            results.o.ready.eq(packer.has_room),
            do_pop.eq(results.o.valid & packer.has_room),
        ]
        # `room` doesn't know yet of the words that were taken in this cycle and in the last one.
        m.d.sync += [room.eq(room - entered + do_pop), has_room.eq(room > 2)]
        popped = Signal(result, reset_less=True)
        scaled_final, scaled_out16, scaled_residue = Signal(), Signal(), Signal()
        m.d.sync += [
            popped_valid.eq(do_pop),
            popped.eq(results.o.payload),
            scaled_valid.eq(popped_valid),
            scaled_final.eq(popped.final),
            scaled_out16.eq(popped.out16),
            scaled_residue.eq(popped.residue),
            packer.valid.eq(scaled_valid),
            packer.final.eq(scaled_final),
            packer.out16.eq(scaled_out16),
            packer.flagged.eq(scaled_residue),
        ]
        word = Signal(self._config.line_bits, reset_less=True)
        words, bytes_, residues_ = [], [], []
        for lane in range(n):
            scaled = Signal(signed(16), name=f"scaled_{lane}", reset_less=True)
            m.d.sync += scaled.eq(shift_round(popped.lanes[lane], popped.post_shift))
            words.append(scaled)
            bytes_.append(saturate(scaled, signed(8)))
            residues_.append(residue(scaled))
        m.d.sync += word.eq(Mux(scaled_out16, Cat(*words), Cat(*bytes_, *residues_)))
        m.d.comb += packer.word.eq(word)
        wiring.connect(m, wiring.flipped(self.packer_tile), packer.tile)
        wiring.connect(m, packer.port, wiring.flipped(self.port))
        wiring.connect(m, packer.post, wiring.flipped(self.post))
        wiring.connect(m, packer.fault, wiring.flipped(self.fault))
        return m
