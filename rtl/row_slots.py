"""Row slots: what the engines tell each other about the rows of a panel."""

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.isa import RangeRecord
from bertha.rtl.signatures import Moments, RowFactor

__all__ = ["RowSlots"]


class RowSlots(wiring.Component):
    """Per slot and lane, the row statistics (GEMM to vector), the row factor and the row's range of keys
    (vector to GEMM).

    Ports
    -----
    statistics_write : In
        `enable`, `slot`, `lanes` (N Moments). Written at the clock edge.
    statistics_continue : In
        `slot` and `enable` in, `lanes` out one cycle later and kept until the next `enable`: what
        the GEMM engine continues.
    statistics_read : In
        `slot` in, `lanes` out two cycles later: the vector engine's.
    factor_write : In
        `enable`, `slot`, `lanes` (N RowFactors).
    factor_read : In
        `slot` in, `lanes` out one cycle later: the GEMM engine's.
    range_write, range_read : In
        As for factors, with N RangeRecords.

    They are in block RAM. Nobody may need in the cycle of a write what that slot held or holds.

    Parameters
    ----------
    config : Config
    """

    def __init__(self, config):
        self._config = config
        moments = data.ArrayLayout(Moments, config.array_n)
        factors = data.ArrayLayout(RowFactor, config.array_n)
        ranges = data.ArrayLayout(RangeRecord, config.array_n)
        super().__init__(
            {
                "statistics_write": In(self.write_signature(config, moments)),
                "statistics_continue": In(self.enabled_read_signature(config, moments)),
                "statistics_read": In(self.read_signature(config, moments)),
                "factor_write": In(self.write_signature(config, factors)),
                "factor_read": In(self.read_signature(config, factors)),
                "range_write": In(self.write_signature(config, ranges)),
                "range_read": In(self.read_signature(config, ranges)),
            }
        )

    @staticmethod
    def write_signature(config, lanes) -> wiring.Signature:
        """Signature of a write port for `lanes`, as its user sees it."""
        return wiring.Signature({"enable": Out(1), "slot": Out(config.slot_bits), "lanes": Out(lanes)})

    @staticmethod
    def read_signature(config, lanes) -> wiring.Signature:
        """Signature of a read port for `lanes`, as its user sees it."""
        return wiring.Signature({"slot": Out(config.slot_bits), "lanes": In(lanes)})

    @staticmethod
    def enabled_read_signature(config, lanes) -> wiring.Signature:
        """As `read_signature`, with an `enable` that holds the lanes while it is clear."""
        return wiring.Signature({"enable": Out(1), "slot": Out(config.slot_bits), "lanes": In(lanes)})

    def elaborate(self, platform) -> Module:
        m = Module()
        later = Signal.like(self.statistics_read.lanes.as_value(), reset_less=True)
        m.d.comb += self.statistics_read.lanes.as_value().eq(later)
        continued = self.statistics_continue
        for name, write, reads in (
            (
                "statistics",
                self.statistics_write,
                [
                    (continued.slot, continued.enable, m.d.comb, continued.lanes),
                    (self.statistics_read.slot, 1, m.d.sync, later),
                ],
            ),
            ("factors", self.factor_write, [(self.factor_read.slot, 1, m.d.comb, self.factor_read.lanes)]),
            ("ranges", self.range_write, [(self.range_read.slot, 1, m.d.comb, self.range_read.lanes)]),
        ):
            # What a read gives in the cycle of a write to its slot doesn't matter (`no_rw_check`), which
            # spares a copy of what was written beside the block RAM.
            m.submodules[name] = storage = memory.Memory(
                shape=len(Value.cast(write.lanes)),
                depth=self._config.row_slots,
                init=[],
                attrs={"ram_style": "block", "no_rw_check": 1},
            )
            write_port = storage.write_port()
            m.d.comb += [
                write_port.en.eq(write.enable),
                write_port.addr.eq(write.slot),
                write_port.data.eq(Value.cast(write.lanes)),
            ]
            for slot, enable, domain, lanes in reads:
                read_port = storage.read_port()
                m.d.comb += [read_port.en.eq(enable), read_port.addr.eq(slot)]
                domain += Value.cast(lanes).eq(read_port.data)
        return m
