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
    i : In(N x int16)
    valid, first, final : In(1)
        With the word: it counts; it is the first of its tile; it is the last that counts.
    kind, init, slot : In
        Of the word's tile: Statistics, start anew, row slot.
    carry_on, write : Out
        To `RowSlots.statistics_continue` and `statistics_write`.

    A word is counted `latency` cycles after it came. One multiplier a lane (the square).
    """

    latency = 2

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
        valid, final = Signal(), Signal()
        # What a tile's first word is added to; else what is at hand.
        from_slot, anew = Signal(), Signal()
        kind = Signal(2)
        slot, running_slot = Signal(self._config.slot_bits), Signal(self._config.slot_bits)
        running_valid, at_hand = Signal(), Signal()
        # The slot's last write may be one cycle old, so what is still at hand isn't read again.
        m.d.comb += [
            self.carry_on.slot.eq(self.slot),
            self.carry_on.enable.eq(self.valid),
            at_hand.eq(Mux(valid, slot == self.slot, running_valid & (running_slot == self.slot))),
        ]
        m.d.sync += [
            valid.eq(self.valid & (self.kind != Statistics.NONE)),
            from_slot.eq(self.first & ~self.init & ~at_hand),
            anew.eq(self.first & self.init),
            final.eq(self.final),
            kind.eq(self.kind),
            slot.eq(self.slot),
        ]
        with m.If(valid):
            m.d.sync += [running_slot.eq(slot), running_valid.eq(1)]
        m.d.sync += [
            self.write.enable.eq(valid & final),
            self.write.slot.eq(slot),
        ]
        for lane in range(n):
            value = Signal(signed(16), name=f"value_{lane}", reset_less=True)
            square = Signal(unsigned(31), name=f"square_{lane}", reset_less=True)
            running = Signal(Moments, name=f"running_{lane}", reset_less=True)
            before = Signal(Moments, name=f"before_{lane}")
            total = Signal(signed(28), name=f"total_{lane}")
            m.d.sync += [
                value.eq(self.i[lane]),
                square.eq((self.i[lane] * self.i[lane]).as_unsigned()),
            ]
            m.d.comb += before.eq(running)
            with m.If(from_slot):
                m.d.comb += before.eq(self.carry_on.lanes[lane])
            with m.If(anew):
                m.d.comb += [
                    before.sum.eq(Mux(kind == Statistics.MAX, -(1 << 15), 0)),
                    before.squares.eq(0),
                ]
            maximum = before.sum[:16].as_signed()
            m.d.comb += total.eq(
                Mux(
                    kind == Statistics.MAX,
                    Mux(value > maximum, value, maximum),
                    value + before.sum,
                )
            )
            with m.If(valid):
                m.d.sync += [running.sum.eq(total), running.squares.eq(before.squares + square)]
            m.d.comb += self.write.lanes[lane].eq(running)
        return m
