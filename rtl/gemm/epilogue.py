"""The drain stream's arithmetic: from int32 columns to the words that are written."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.arithmetic import saturate, shift_round
from rtl.gemm.column import ACCUMULATOR_BITS
from rtl.gemm.packer import Packer
from rtl.gemm.piecewise import Piecewise
from rtl.gemm.requantize import Requantize
from rtl.gemm.statistics import RowStatistics
from rtl.gemm.tile import EpilogueTile, PackerTile
from rtl.isa import ColumnRecord, semaphore_layout
from rtl.row_slots import RowSlots
from rtl.signatures import FaultSignature, Moments, RowFactor, TableWriteSignature, bank_write

__all__ = ["Epilogue"]


class _Meta(data.Struct):
    """What goes along with a word through the pipeline."""

    valid: 1
    first: 1
    final: 1
    piecewise: 1
    residual: 1
    mask: 1
    residue: 1
    post_shift: 4
    statistics: 2
    statistics_init: 1
    slot: 8


class Epilogue(wiring.Component):
    """Requantisation, piecewise function, residual, mask, statistics and packing, in this order.

    A column a cycle; the arithmetic is that of docs/architecture.md, "Epilogue".

    Ports
    -----
    word : In(stream of N x int32)
        Columns of the tiles, N a tile.
    tile : In(stream of EpilogueTile), packer_tile : In(stream of PackerTile)
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

    def elaborate(self, platform):
        m = Module()
        n = self._config.array_n
        advance = Signal()

        # Tile context: the next one is loaded in the cycle in which a tile's last column is taken,
        # and its row factors are read in the same cycle.
        tile, tile_valid = Signal(EpilogueTile), Signal()
        column = Signal(range(n))
        do_take, do_load, record_there = Signal(), Signal(), Signal()
        m.d.comb += [
            record_there.eq(~tile.params | self.record.valid),
            do_take.eq(advance & tile_valid & self.word.valid & record_there),
            self.word.ready.eq(advance & tile_valid & record_there),
            self.record.ready.eq(do_take & tile.params),
            do_load.eq(~tile_valid | (do_take & (column == n - 1))),
            self.tile.ready.eq(do_load),
            self.factor_read.slot.eq(Mux(do_load, self.tile.payload.slot, tile.slot)),
        ]
        with m.If(do_load):
            m.d.sync += [tile.eq(self.tile.payload), tile_valid.eq(self.tile.valid)]
        with m.If(do_take):
            m.d.sync += column.eq(Mux(column == n - 1, 0, column + 1))

        record = self.record.payload
        from_record = tile.params & ~tile.uniform
        m.submodules.requantize = requantize = Requantize(n)
        m.d.comb += [
            requantize.advance.eq(advance),
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
            meta.valid.eq(do_take & (column < tile.columns)),
            meta.first.eq(column == 0),
            meta.final.eq(column == tile.columns - 1),
            meta.piecewise.eq(tile.piecewise),
            meta.residual.eq(tile.residual),
            meta.mask.eq(tile.params & record.mask),
            meta.residue.eq(tile.params & record.residue),
            meta.post_shift.eq(Mux(from_record, record.post_shift, tile.post_shift)),
            meta.statistics.eq(tile.statistics),
            meta.statistics_init.eq(tile.statistics_init),
            meta.slot.eq(tile.slot),
        ]

        def delayed(meta, cycles, name):
            for cycle in range(cycles):
                later = Signal(_Meta, name=f"{name}_{cycle}")
                with m.If(advance):
                    m.d.sync += later.eq(meta)
                meta = later
            return meta

        meta = delayed(meta, requantize.latency, "requantized")
        m.submodules.piecewise = piecewise = Piecewise(n)
        wiring.connect(m, wiring.flipped(self.table), piecewise.table)
        m.d.comb += [
            piecewise.advance.eq(advance),
            piecewise.enable.eq(meta.piecewise),
            piecewise.i.eq(requantize.o),
        ]
        meta = delayed(meta, piecewise.latency, "piecewise")

        needs_residual = Signal()
        m.d.comb += [
            needs_residual.eq(meta.valid & meta.residual),
            self.residual.ready.eq(advance & needs_residual),
        ]
        summed = Signal(data.ArrayLayout(signed(16), n))
        for lane in range(n):
            residual = self.residual.payload.word_select(lane, 16).as_signed()
            with m.If(advance):
                m.d.sync += summed[lane].eq(
                    Mux(
                        meta.mask,
                        -(1 << 15),
                        saturate(piecewise.o[lane] + Mux(meta.residual, residual, 0), signed(16)),
                    )
                )
        held = needs_residual & ~self.residual.valid
        meta = delayed(meta, 1, "summed")

        m.submodules.statistics = statistics = RowStatistics(self._config)
        wiring.connect(m, statistics.carry_on, wiring.flipped(self.statistics_continue))
        wiring.connect(m, statistics.write, wiring.flipped(self.statistics_write))
        m.d.comb += [
            statistics.advance.eq(advance),
            statistics.i.eq(summed),
            statistics.valid.eq(meta.valid),
            statistics.first.eq(meta.first),
            statistics.final.eq(meta.final),
            statistics.kind.eq(meta.statistics),
            statistics.init.eq(meta.statistics_init),
            statistics.slot.eq(meta.slot),
        ]

        m.submodules.packer = packer = Packer(self._config)
        for lane in range(n):
            scaled = Signal(signed(16), name=f"scaled_{lane}")
            unscaled = Signal(signed(16), name=f"unscaled_{lane}")
            with m.If(advance):
                m.d.sync += [
                    scaled.eq(shift_round(summed[lane], meta.post_shift)),
                    unscaled.eq(summed[lane]),
                ]
            byte = saturate(scaled, signed(8))
            m.d.comb += [
                packer.word16[lane].eq(unscaled),
                packer.word8[lane].eq(byte),
                packer.residue8[lane].eq(saturate(scaled - byte, signed(8))),
            ]
        meta = delayed(meta, 1, "scaled")
        # Registers in front of the pipeline's end may move while the packer has no word to take.
        packer_free = Signal()
        m.d.comb += [
            packer_free.eq(~meta.valid | packer.ready),
            advance.eq(packer_free & ~held),
            packer.valid.eq(meta.valid & ~held),
            packer.final.eq(meta.final),
            packer.flagged.eq(meta.residue),
        ]
        wiring.connect(m, wiring.flipped(self.packer_tile), packer.tile)
        wiring.connect(m, packer.port, wiring.flipped(self.port))
        wiring.connect(m, packer.post, wiring.flipped(self.post))
        wiring.connect(m, packer.fault, wiring.flipped(self.fault))
        return m
