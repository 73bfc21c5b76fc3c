"""One single-port memory bank."""

from amaranth.hdl import Module
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Bank"]


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

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = storage = memory.Memory(
            shape=self._line_bits, depth=self._lines, init=[]
        )
        write_port = storage.write_port()
        read_port = storage.read_port()
        m.d.comb += [
            write_port.addr.eq(self.addr),
            write_port.data.eq(self.write_data),
            write_port.en.eq(self.enable & self.write),
            read_port.addr.eq(self.addr),
            read_port.en.eq(self.enable & ~self.write),
            self.read_data.eq(read_port.data),
        ]
        return m
