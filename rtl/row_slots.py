"""Row slots: what the engines tell each other about the rows of a panel."""

from amaranth.hdl import Module, Value
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.signatures import Moments, RowFactor

__all__ = ["RowSlots"]


class RowSlots(wiring.Component):
    """Per slot and lane, the row statistics (GEMM to vector) and the row factor (vector to GEMM).

    Ports
    -----
    statistics_write : In
        `enable`, `slot`, `lanes` (N Moments). Written at the clock edge.
    statistics_continue : In
        `slot` and `enable` in, `lanes` out one cycle later and kept until the next `enable`: what
        the GEMM engine continues.
    statistics_read : In
        `slot` in, `lanes` out one cycle later: the vector engine's.
    factor_write : In
        `enable`, `slot`, `lanes` (N RowFactors).
    factor_read : In
        `slot` in, `lanes` out one cycle later: the GEMM engine's.

    Parameters
    ----------
    config : Config
    """

    def __init__(self, config):
        self._config = config
        moments = data.ArrayLayout(Moments, config.array_n)
        factors = data.ArrayLayout(RowFactor, config.array_n)
        super().__init__(
            {
                "statistics_write": In(self.write_signature(config, moments)),
                "statistics_continue": In(self.enabled_read_signature(config, moments)),
                "statistics_read": In(self.read_signature(config, moments)),
                "factor_write": In(self.write_signature(config, factors)),
                "factor_read": In(self.read_signature(config, factors)),
            }
        )

    @staticmethod
    def write_signature(config, lanes):
        """Signature of a write port for `lanes`, as its user sees it."""
        return wiring.Signature({"enable": Out(1), "slot": Out(config.slot_bits), "lanes": Out(lanes)})

    @staticmethod
    def read_signature(config, lanes):
        """Signature of a read port for `lanes`, as its user sees it."""
        return wiring.Signature({"slot": Out(config.slot_bits), "lanes": In(lanes)})

    @staticmethod
    def enabled_read_signature(config, lanes):
        """As `read_signature`, with an `enable` that holds the lanes while it is clear."""
        return wiring.Signature({"enable": Out(1), "slot": Out(config.slot_bits), "lanes": In(lanes)})

    def elaborate(self, platform) -> Module:
        m = Module()
        for name, write, reads in (
            (
                "statistics",
                self.statistics_write,
                [
                    (self.statistics_continue, self.statistics_continue.enable),
                    (self.statistics_read, 1),
                ],
            ),
            ("factors", self.factor_write, [(self.factor_read, 1)]),
        ):
            width = len(Value.cast(write.lanes))
            m.submodules[name] = storage = memory.Memory(shape=width, depth=self._config.row_slots, init=[])
            write_port = storage.write_port()
            m.d.comb += [
                write_port.en.eq(write.enable),
                write_port.addr.eq(write.slot),
                write_port.data.eq(Value.cast(write.lanes)),
            ]
            for port, enable in reads:
                read_port = storage.read_port()
                m.d.comb += [
                    read_port.en.eq(enable),
                    read_port.addr.eq(port.slot),
                    Value.cast(port.lanes).eq(read_port.data),
                ]
        return m
