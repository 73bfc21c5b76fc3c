"""Packs result words into lines, and tells when a tile's last line is in the scratchpad."""

from amaranth.hdl import Cat, Const, Module, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.gemm.tile import PackerTile
from rtl.isa import semaphore_layout
from rtl.scratchpad.writer import LineWriter
from rtl.signatures import LINE_ADDRESS_BITS, FaultSignature, bank_write, line_write
from rtl.stream import Queue, Register

__all__ = ["Packer"]

COUNT_BITS = 8  # lines between the packer and the scratchpad, modulo; at most a handful are


class Packer(wiring.Component):
    """Writes a tile's words from `addr` and its residue words from `residue_addr`.

    8-bit words go two a line; an odd last word gets a zero word beside it.

    Ports
    -----
    tile : In(stream of PackerTile)
        Must be there with a tile's first word.
    valid, final : In(1)
        A word comes; it is the tile's last one.
    word16 : In(N x int16), word8 : In(N x int8), residue8 : In(N x int8)
        The word in the forms it may be written in.
    flagged : In(1)
        `residue8` is to be written too, if the tile wants residues.
    ready : Out(1)
        The word is taken.
    port : Out(stream of bank_write)
        To the scratchpad.
    post : Out(stream of semaphore_layout)
        A tile is finished: its post1, enabled or not.
    fault : Out(FaultSignature)
    """

    def __init__(self, config):
        self._config = config
        n = config.array_n
        super().__init__(
            {
                "tile": In(stream.Signature(PackerTile)),
                "valid": In(1),
                "final": In(1),
                "word16": In(data.ArrayLayout(signed(16), n)),
                "word8": In(data.ArrayLayout(signed(8), n)),
                "residue8": In(data.ArrayLayout(signed(8), n)),
                "flagged": In(1),
                "ready": Out(1),
                "port": Out(stream.Signature(bank_write(config))),
                "post": Out(stream.Signature(semaphore_layout)),
                "fault": Out(FaultSignature),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self._config
        tile = self.tile.payload
        m.submodules.writer = writer = LineWriter(config)
        wiring.connect(m, writer.port, wiring.flipped(self.port))
        wiring.connect(m, writer.fault, wiring.flipped(self.fault))
        finished_shape = data.StructLayout({"post1": semaphore_layout, "count": COUNT_BITS})
        m.submodules.finished = finished = Queue(finished_shape, 4)

        do_word = Signal()
        m.d.comb += do_word.eq(self.valid & self.ready)
        results = _Lines(
            m,
            config,
            "result",
            base=tile.addr,
            index=tile.index,
            do_word=do_word,
            final=self.final,
        )
        residues = _Lines(
            m,
            config,
            "residue",
            base=tile.residue_addr,
            index=tile.index,
            do_word=do_word,
            final=self.final,
        )
        results.put(self.word8.as_value(), wanted=~tile.out16)
        results.put_line(self.word16.as_value(), wanted=tile.out16)
        residues.put(self.residue8.as_value(), wanted=self.flagged & tile.residue)

        # One line a cycle leaves, results first.
        m.d.comb += [
            writer.i.valid.eq(results.o.valid | residues.o.valid),
            writer.i.payload.eq(residues.o.payload),
            residues.o.ready.eq(writer.i.ready & ~results.o.valid),
            results.o.ready.eq(writer.i.ready),
        ]
        with m.If(results.o.valid):
            m.d.comb += writer.i.payload.eq(results.o.payload)
        m.d.comb += [
            self.ready.eq(
                self.tile.valid & results.has_room & residues.has_room & finished.i.ready
            ),
            self.tile.ready.eq(do_word & self.final),
        ]

        made, written = Signal(COUNT_BITS), Signal(COUNT_BITS)
        made_now, behind = Signal(COUNT_BITS), Signal(COUNT_BITS)
        m.d.comb += [
            made_now.eq(made + results.do_complete + residues.do_complete),
            finished.i.valid.eq(do_word & self.final),
            finished.i.payload.post1.eq(tile.post1),
            finished.i.payload.count.eq(made_now),
            behind.eq(written - finished.o.payload.count),
            self.post.payload.eq(finished.o.payload.post1),
            self.post.valid.eq(finished.o.valid & ~behind[-1]),
            finished.o.ready.eq(self.post.ready & ~behind[-1]),
        ]
        m.d.sync += [
            made.eq(made_now),
            written.eq(written + (self.port.valid & self.port.ready)),
        ]
        return m


class _Lines:
    """One of the packer's two destinations: the half line at hand, and the lines that are complete."""

    def __init__(self, m, config, name, *, base, index, do_word, final):
        self._m = m
        self._do_word = do_word
        self._final = final
        self._half = Signal(8 * config.array_n, name=f"{name}_half", reset_less=True)
        self._half_valid = Signal(name=f"{name}_half_valid")
        self._offset = Signal(LINE_ADDRESS_BITS, name=f"{name}_offset")
        self.do_complete = Signal(name=f"{name}_do_complete")
        m.submodules[f"{name}_lines"] = lines = Register(line_write(config))
        self.o = lines.o
        self.has_room = lines.i.ready
        self._line = lines.i.payload.data
        m.d.comb += [
            lines.i.valid.eq(self.do_complete),
            lines.i.payload.addr.eq(base + self._offset),
            lines.i.payload.index.eq(index),
        ]
        with m.If(self.do_complete):
            m.d.sync += self._offset.eq(self._offset + 1)
        with m.If(do_word & final):
            m.d.sync += [self._offset.eq(0), self._half_valid.eq(0)]

    def put(self, word, *, wanted):
        """Takes an 8-bit word if `wanted`; completes a line with every second one and the last."""
        m = self._m
        zero = Const(0, len(word))
        with m.If(self._do_word & wanted):
            with m.If(self._half_valid):
                m.d.comb += [self.do_complete.eq(1), self._line.eq(Cat(self._half, word))]
                m.d.sync += self._half_valid.eq(0)
            with m.Elif(self._final):
                m.d.comb += [self.do_complete.eq(1), self._line.eq(Cat(word, zero))]
            with m.Else():
                m.d.sync += [self._half.eq(word), self._half_valid.eq(1)]
        with m.Elif(self._do_word & self._final & self._half_valid):
            m.d.comb += [self.do_complete.eq(1), self._line.eq(Cat(self._half, zero))]
            m.d.sync += self._half_valid.eq(0)

    def put_line(self, line, *, wanted):
        """Takes a 16-bit word, which is a line, if `wanted`."""
        m = self._m
        with m.If(self._do_word & wanted):
            m.d.comb += [self.do_complete.eq(1), self._line.eq(line)]
