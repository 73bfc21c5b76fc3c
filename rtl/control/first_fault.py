"""Finds the fault that a program is stopped for."""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.signatures import Fault

__all__ = ["FaultSource", "FirstFault"]


class FaultSource(data.Struct):
    """A fault and the `Engine` that saw it."""

    fault: Fault
    engine: unsigned(3)


_candidate = data.StructLayout({"valid": 1, "source": FaultSource})


class FirstFault(wiring.Component):
    """The fault with the lowest command index among those of a cycle.

    A tree of comparisons with a register after each: `latency` cycles. Of two with the same index
    the one with the lower number wins.

    Ports
    -----
    valid : In(1) x count
    source : In(FaultSource) x count
    first_valid : Out(1)
    first : Out(FaultSource)

    Parameters
    ----------
    count : int
        Sources, at least 2.
    """

    def __init__(self, count):
        self._count = count
        self.latency = (count - 1).bit_length()
        super().__init__(
            {
                "valid": In(1).array(count),
                "source": In(FaultSource).array(count),
                "first_valid": Out(1),
                "first": Out(FaultSource),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        level = []
        for number in range(self._count):
            candidate = Signal(_candidate, name=f"source_{number}")
            m.d.comb += [candidate.valid.eq(self.valid[number]), candidate.source.eq(self.source[number])]
            level.append(candidate)
        depth = 0
        while len(level) > 1:
            winners = []
            for number in range(0, len(level), 2):
                winner = Signal(_candidate, name=f"winner_{depth}_{number // 2}")
                first, *others = level[number : number + 2]
                if others:
                    second = others[0]
                    takes_second = second.valid & (
                        ~first.valid | (second.source.fault.index < first.source.fault.index)
                    )
                    m.d.sync += winner.eq(Mux(takes_second, second.as_value(), first.as_value()))
                else:
                    m.d.sync += winner.eq(first)
                winners.append(winner)
            level = winners
            depth += 1
        m.d.comb += [self.first_valid.eq(level[0].valid), self.first.eq(level[0].source)]
        return m
