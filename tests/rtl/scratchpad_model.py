"""A scratchpad in Python for tests of what reads and writes it: fixed latency, random grants."""

from bertha.rtl.scratchpad.scratchpad import Scratchpad

__all__ = ["ScratchpadModel"]


class ScratchpadModel:
    """Serves read and write ports of a component under test.

    Parameters
    ----------
    config : Config
    reads, writes : list of ports
        As the component under test has them.
    pace : Pace
        Decides for each port and cycle whether it is granted.

    Attributes
    ----------
    lines : dict of int to int
        Contents. Reading a line that was never written is an error.
    written, read : list of int
        Addresses in the order in which they were written and asked for.
    """

    def __init__(self, config, *, reads, writes, pace):
        self.config = config
        self.lines = {}
        self.written = []
        self.read = []
        self._reads = reads
        self._writes = writes
        self._pace = pace

    async def serve(self, ctx):
        """Background test bench."""
        pending = [[None] * (Scratchpad.latency - 1) for _ in self._reads]
        probes = []
        for port in self._reads:
            probes += [port.request.valid, port.request.payload]
        for port in self._writes:
            probes += [port.valid, port.payload.addr, port.payload.data]
        while True:
            grants = [self._pace.willing() for _ in self._reads + self._writes]
            for port, grant in zip(self._reads, grants):
                ctx.set(port.request.ready, grant)
            for port, grant in zip(self._writes, grants[len(self._reads) :]):
                ctx.set(port.ready, grant)
            _, _, *values = await ctx.tick().sample(*probes)
            for number, port in enumerate(self._reads):
                valid, addr = values[2 * number : 2 * number + 2]
                line = None
                if valid and grants[number]:
                    line = self.lines.get(addr)
                    assert line is not None, f"line {addr} is read but was never written"
                    self.read.append(addr)
                pending[number].append(line)
                line = pending[number].pop(0)
                ctx.set(port.data_valid, line is not None)
                ctx.set(port.data, line or 0)
            offset = 2 * len(self._reads)
            for number in range(len(self._writes)):
                valid, addr, line = values[offset + 3 * number : offset + 3 * number + 3]
                if valid and grants[len(self._reads) + number]:
                    self.lines[addr] = line
                    self.written.append(addr)
