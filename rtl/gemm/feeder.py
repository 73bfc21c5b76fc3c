"""Feeds the array: lines of A and B become word pairs, tile after tile."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.gemm.column import Step
from bertha.rtl.gemm.tile import RECORDS_BITS, FeederTile
from bertha.rtl.isa import semaphore_layout
from bertha.rtl.signatures import INDEX_BITS

__all__ = ["Feeder"]


class Feeder(wiring.Component):
    """A word pair a cycle into the array, as long as both operands' lines are there.

    A tile's last pair waits until the drain has room for the N words that follow it, and until N
    cycles have passed since the last pair of the tile before, whose drain takes as long. Of a tile
    with a wide operand each pass comes as a tile; what the first one leaves needs no room.

    Ports
    -----
    tile : In(stream of FeederTile)
    a, b : In(streams of lines)
        k / 2 lines of each for every tile.
    o : Out
        To the array: `step`, `a`, `b`; registered.
    room : In(1)
        There is room for the N words of one more tile.
    records_read : In
        Tiles whose column records have been asked of the scratchpad, modulo. A tile ends after its
        own have, so that its post0 covers them.
    do_reserve : Out(1)
        That room is taken.
    post : Out(stream of semaphore_layout)
        post0 of a tile whose operands have been read, enabled or not. It is given in a cycle after
        one in which it was ready.
    active, index : Out
        A pair enters the array in this cycle, for this command.
    """

    def __init__(self, config):
        self._config = config
        n = config.array_n
        super().__init__(
            {
                "tile": In(stream.Signature(FeederTile)),
                "a": In(stream.Signature(config.line_bits)),
                "b": In(stream.Signature(config.line_bits)),
                "o": Out(wiring.Signature({"step": Out(Step), "a": Out(8 * n), "b": Out(8 * n)})),
                "room": In(1),
                "records_read": In(RECORDS_BITS),
                "do_reserve": Out(1),
                "post": Out(stream.Signature(semaphore_layout)),
                "active": Out(1),
                "index": Out(INDEX_BITS),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        half = 8 * self._config.array_n
        tile, tile_valid = Signal(FeederTile), Signal()
        left = Signal(16)  # words of the tile beside this one
        odd = Signal()
        spacing = Signal(range(self._config.array_n))  # cycles until a tile may end
        first, last, do_step, do_load = Signal(), Signal(), Signal(), Signal()
        # A cycle old, but a tile's last pair comes at least two cycles after the tile.
        may_end, records_ahead = Signal(), Signal(RECORDS_BITS)
        m.d.comb += records_ahead.eq(self.records_read - tile.records)
        m.d.sync += may_end.eq(
            (self.room | tile.wide_high) & self.post.ready & ~records_ahead[-1] & (spacing <= 1)
        )
        m.d.comb += [
            do_load.eq(~tile_valid | (do_step & last)),
            do_step.eq(tile_valid & self.a.valid & self.b.valid & ~(last & ~may_end)),
            self.a.ready.eq(do_step & odd),
            self.b.ready.eq(do_step & odd),
            self.tile.ready.eq(do_load),
            self.do_reserve.eq(do_step & last & ~tile.wide_high),
            self.post.payload.eq(tile.post0),
            self.post.valid.eq(do_step & last),
        ]
        a, b = Signal(half, reset_less=True), Signal(half, reset_less=True)
        m.d.comb += [self.o.a.eq(a), self.o.b.eq(b)]
        with m.If(do_step & last):
            m.d.sync += spacing.eq(self._config.array_n - 1)
        with m.Elif(spacing != 0):
            m.d.sync += spacing.eq(spacing - 1)
        with m.If(do_step):
            m.d.sync += [
                left.eq(left - 1),
                odd.eq(~odd),
                first.eq(0),
                last.eq(left == 1),
                a.eq(Mux(odd, self.a.payload[half:], self.a.payload[:half])),
                b.eq(Mux(odd, self.b.payload[half:], self.b.payload[:half])),
                self.index.eq(tile.index),
            ]
        with m.If(do_load):
            m.d.sync += [
                tile.eq(self.tile.payload),
                tile_valid.eq(self.tile.valid),
                left.eq(self.tile.payload.k - 1),
                first.eq(1),
                last.eq(0),  # k is even
            ]
        m.d.sync += [
            self.o.step.valid.eq(do_step),
            self.o.step.first.eq(first),
            self.o.step.last.eq(last),
            self.o.step.a_unsigned.eq(tile.a_unsigned),
            self.o.step.wide_high.eq(tile.wide_high),
            self.o.step.wide_low.eq(tile.wide_low),
        ]
        m.d.comb += self.active.eq(self.o.step.valid)
        return m
