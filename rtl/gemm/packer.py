"""Packs result words into lines, and tells when a tile's last line is in the scratchpad."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.gemm.tile import PackerTile
from bertha.rtl.isa import semaphore_layout
from bertha.rtl.lanes.panel_packer import PanelPacker
from bertha.rtl.lanes.rounding_shift import RoundingShift
from bertha.rtl.scratchpad.writer import LineWriter
from bertha.rtl.signatures import FaultSignature, bank_write, line_write
from bertha.rtl.stream import Queue

__all__ = ["Packer"]

QUEUE_DEPTH = 16  # of lines, and of finished tiles; LUT RAM is 16 deep
WORD_LATENCY = 2 + RoundingShift.latency  # from the epilogue's queue of results: popped, shifted, limited
ROOM_LATENCY = WORD_LATENCY + 2
"""Cycles from a word's start to a `has_room` that knows of it: its way here, the queue's level, the
register of `has_room`. So many words may start, this cycle's among them, that `has_room` doesn't
know of, and be a tile each: the room that must be left in every queue."""
COUNT_BITS = 10
"""Of the modulo counts of lines. Against the oldest finished tile, the written lines are behind by at
most what both queues and the writer hold, and ahead by those of less than `QUEUE_DEPTH` tiles that
wait until its post is taken, up to 32 lines each: less than half of the range."""

ORDER_BITS = 6
"""Of the modulo number of a line's tile: the queues' heads are less than half of the range apart."""


class Packer(wiring.Component):
    """Writes a tile's words from `addr` and its residue words, or low plane, from `residue_addr`.

    8-bit words go two a line; an odd last word gets a zero word beside it. The packer takes every
    word that comes: who sends them asks `has_room` first.

    Ports
    -----
    tile : In(stream of PackerTile)
        Must be there with a tile's first word, and is: a tile is issued to all who work on it in
        the same cycle, and its words have a longer way.
    has_room : Out(1)
        A word may start on its way here. Takes the words into account that started
        `ROOM_LATENCY` cycles ago or earlier.
    valid, final : In(1)
        A word comes, `WORD_LATENCY` cycles after it started; it is the tile's last one.
    out16, flagged : In(1)
        The word has 16 bits a lane; has residues that are written. At most one of them is set,
        and `out16` is that of the tile.
    word : In(16 N)
        N x int16 with `out16`; else N x int8 and, above them, N x int8 of residues.
    port : Out(stream of bank_write)
        To the scratchpad.
    post : Out(stream of semaphore_layout)
        A tile is finished: its post1, enabled or not.
    fault : Out(FaultSignature)
    """

    def __init__(self, config):
        self._config = config
        super().__init__(
            {
                "tile": In(stream.Signature(PackerTile)),
                "has_room": Out(1),
                "valid": In(1),
                "final": In(1),
                "out16": In(1),
                "flagged": In(1),
                "word": In(config.line_bits),
                "port": Out(stream.Signature(bank_write(config))),
                "post": Out(stream.Signature(semaphore_layout)),
                "fault": Out(FaultSignature),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self._config
        tile = self.tile.payload
        m.submodules.writer = writer = LineWriter(config)
        wiring.connect(m, writer.port, wiring.flipped(self.port))
        wiring.connect(m, writer.fault, wiring.flipped(self.fault))
        finished_shape = data.StructLayout({"post1": semaphore_layout, "count": COUNT_BITS})
        m.submodules.finished = finished = Queue(finished_shape, QUEUE_DEPTH)

        is_last, number = Signal(), Signal(ORDER_BITS)
        m.d.sync += number.eq(number + is_last)
        queued = data.StructLayout({"line": line_write(config), "tile": ORDER_BITS})
        m.d.comb += [is_last.eq(self.valid & self.final), self.tile.ready.eq(is_last)]
        queues, completed = [], []
        residue_word = self.word[config.line_bits // 2 :]
        for name, base, word, wanted, wide in (
            ("result", tile.addr, self.word, 1, self.out16),
            ("residue", tile.residue_addr, residue_word, self.flagged, 0),
        ):
            m.submodules[f"{name}_panel"] = panel = PanelPacker(config, lines=config.array_n)
            m.submodules[f"{name}_lines"] = lines = Queue(queued, QUEUE_DEPTH)
            completed.append(panel.complete & self.valid)
            m.d.comb += [
                panel.base.eq(base),
                panel.word.eq(word),
                panel.wide.eq(wide),
                panel.wanted.eq(wanted),
                panel.final.eq(self.final),
                panel.enable.eq(self.valid),
                lines.i.valid.eq(completed[-1]),
                lines.i.payload.line.addr.eq(panel.addr),
                lines.i.payload.line.data.eq(panel.line),
                lines.i.payload.line.index.eq(tile.index),
                lines.i.payload.tile.eq(number),
            ]
            queues.append(lines)
        results, residues = queues

        # One line a cycle leaves, a tile's results first; but residues don't wait for the next tile's results, which
        # would be counted as theirs.
        apart, residue_first = Signal(ORDER_BITS), Signal()
        m.d.comb += [
            apart.eq(residues.o.payload.tile - results.o.payload.tile),
            residue_first.eq(residues.o.valid & (~results.o.valid | apart[-1])),
            writer.i.valid.eq(results.o.valid | residues.o.valid),
            writer.i.payload.eq(Mux(residue_first, residues.o.payload.line, results.o.payload.line)),
            residues.o.ready.eq(writer.i.ready & residue_first),
            results.o.ready.eq(writer.i.ready & ~residue_first),
        ]

        # Every word can put one payload into each of the three queues.
        highest = QUEUE_DEPTH - ROOM_LATENCY
        m.d.sync += self.has_room.eq(
            (results.level <= highest) & (residues.level <= highest) & (finished.level <= highest)
        )

        made, written = Signal(COUNT_BITS), Signal(COUNT_BITS)
        made_now, behind = Signal(COUNT_BITS), Signal(COUNT_BITS)
        m.d.comb += [
            made_now.eq(made + completed[0] + completed[1]),
            finished.i.valid.eq(is_last),
            finished.i.payload.post1.eq(tile.post1),
            finished.i.payload.count.eq(made_now),
            behind.eq(written - finished.o.payload.count),
            self.post.payload.eq(finished.o.payload.post1),
            self.post.valid.eq(finished.o.valid & ~behind[-1]),
            finished.o.ready.eq(self.post.ready & ~behind[-1]),
        ]
        m.d.sync += [made.eq(made_now), written.eq(written + (self.port.valid & self.port.ready))]
        return m
