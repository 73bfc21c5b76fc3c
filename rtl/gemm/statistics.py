"""Row statistics of what leaves the epilogue: the maximum, or the moments Σx and Σx²."""

from amaranth.hdl import Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.isa import Statistics
from bertha.rtl.row_slots import RowSlots
from bertha.rtl.signatures import Moments

__all__ = ["RowStatistics"]


class RowStatistics(wiring.Component):
    """Gathers, lane by lane, over the words of a tile and from tile to tile of a slot.

    Ports
    -----
    valid, first, final : In(1)
        A cycle before its word: it counts; it is the first of its tile; it is the last that counts.
    kind, init, slot : In
        A cycle before the word, of its tile: Statistics, start anew, row slot.
    i : In(N x int16)
        The word.
    carry_on, write : Out
        To `RowSlots.statistics_continue` and `statistics_write`.

    First words come at least four cycles apart, so that a slot is written when it is read again: it is
    written `latency` cycles after its tile's last word. One multiplier a lane (the square).
    """

    latency = 3

    def __init__(self, config):
        self._config = config
        n = config.array_n
        moments = data.ArrayLayout(Moments, n)
        super().__init__(
            {
                "i": In(data.ArrayLayout(signed(16), n)),
                "valid": In(1),
                "first": In(1),
                "final": In(1),
                "kind": In(2),
                "init": In(1),
                "slot": In(config.slot_bits),
                "carry_on": Out(RowSlots.enabled_read_signature(config, moments)),
                "write": Out(RowSlots.write_signature(config, moments)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        n = self._config.array_n
        m.d.comb += [self.carry_on.slot.eq(self.slot), self.carry_on.enable.eq(self.valid)]
        # With the word, ...
        coming = Signal(data.StructLayout({"valid": 1, "first": 1, "final": 1, "kind": 2, "init": 1}))
        coming_slot = Signal(self._config.slot_bits)
        m.d.sync += [
            coming.valid.eq(self.valid & (self.kind != Statistics.NONE)),
            coming.first.eq(self.first),
            coming.final.eq(self.final),
            coming.kind.eq(self.kind),
            coming.init.eq(self.init),
            coming_slot.eq(self.slot),
        ]
        # ... and a cycle later, when it is added to what is at hand, to the slot's, or to nothing. The last
        # word's slot is at hand; its memory may not know of that word yet.
        valid, final = Signal(), Signal()
        from_slot, anew = Signal(), Signal()
        kind = Signal(2)
        slot, at_hand = Signal(self._config.slot_bits), Signal()
        m.d.sync += [
            valid.eq(coming.valid),
            final.eq(coming.final),
            kind.eq(coming.kind),
            from_slot.eq(coming.first & ~(at_hand & (slot == coming_slot))),
            anew.eq(coming.first & coming.init),
            self.write.enable.eq(valid & final),
            self.write.slot.eq(slot),
        ]
        with m.If(coming.valid):
            m.d.sync += [slot.eq(coming_slot), at_hand.eq(1)]
        for lane in range(n):
            value = Signal(signed(16), name=f"value_{lane}", reset_less=True)
            square = Signal(unsigned(31), name=f"square_{lane}", reset_less=True)
            running = Signal(Moments, name=f"running_{lane}", reset_less=True)
            continued = Signal(Moments, name=f"continued_{lane}", reset_less=True)
            before = Signal(Moments, name=f"before_{lane}")
            total = Signal(signed(28), name=f"total_{lane}")
            with m.If(coming.valid):
                m.d.sync += [
                    value.eq(self.i[lane]),
                    continued.eq(self.carry_on.lanes[lane]),
                    square.eq((self.i[lane] * self.i[lane]).as_unsigned()),
                ]
            m.d.comb += before.eq(running)
            with m.If(from_slot):
                m.d.comb += before.eq(continued)
            with m.If(anew):
                m.d.comb += [before.sum.eq(Mux(kind == Statistics.MAX, -(1 << 15), 0)), before.squares.eq(0)]
            maximum = before.sum[:16].as_signed()
            m.d.comb += total.eq(
                Mux(kind == Statistics.MAX, Mux(value > maximum, value, maximum), value + before.sum)
            )
            with m.If(valid):
                m.d.sync += [running.sum.eq(total), running.squares.eq(before.squares + square)]
            m.d.comb += self.write.lanes[lane].eq(running)
        return m
