"""One single-port memory bank."""

from amaranth.hdl import Cat, Module
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Bank"]

SLICE_BITS = 32
"""Width of the memories side by side. For a power of two, and not for a whole line, synthesis finds
block RAMs as deep as the bank, which need no multiplexer behind them."""


class Bank(wiring.Component):
    """Memory with one access a cycle: a read or a write of a whole line.

    `enable` with `write` clear reads; the line is at `read_data` after the next clock edge and
    stays until the next read. Maps to one block RAM port, or a single-port SRAM.

    Parameters
    ----------
    lines : int
        Depth.
    line_bits : int
        Width.
    """

    latency = 1

    def __init__(self, lines, line_bits):
        self._lines = lines
        self._line_bits = line_bits
        super().__init__(
            {
                "enable": In(1),
                "write": In(1),
                "addr": In(range(lines)),
                "write_data": In(line_bits),
                "read_data": Out(line_bits),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        read_data = []
        for first in range(0, self._line_bits, SLICE_BITS):
            bits = slice(first, min(first + SLICE_BITS, self._line_bits))
            m.submodules[f"slice_{first // SLICE_BITS}"] = storage = memory.Memory(
                shape=bits.stop - first, depth=self._lines, init=[]
            )
            write_port = storage.write_port()
            read_port = storage.read_port()
            m.d.comb += [
                write_port.addr.eq(self.addr),
                write_port.data.eq(self.write_data[bits]),
                write_port.en.eq(self.enable & self.write),
                read_port.addr.eq(self.addr),
                read_port.en.eq(self.enable & ~self.write),
            ]
            read_data.append(read_port.data)
        m.d.comb += self.read_data.eq(Cat(read_data))
        return m
