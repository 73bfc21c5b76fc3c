"""Streams ranges of lines out of the scratchpad."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.isa import FaultReason
from rtl.scratchpad.scratchpad import Scratchpad
from rtl.signatures import FaultSignature, LineRange, read_port
from rtl.stream import Queue, connect_streams

__all__ = ["LineReader"]


class LineReader(wiring.Component):
    """Turns line ranges into their lines, in order, a line a cycle while the scratchpad grants it.

    Ranges follow one another without a bubble. A range that leaves the scratchpad faults before
    any of it is read, and nothing is read after it until reset.

    Ports
    -----
    i : In(stream of LineRange)
    o : Out(stream of lines)
    port : Out(read_port)
        To the scratchpad.
    fault : Out(FaultSignature)
    idle : Out(1)
        No line is wanted, on its way, or waiting at `o`.

    Parameters
    ----------
    config : Config
    depth : int
        Lines that may be on their way or waiting. Above the scratchpad's latency, so that a line
        a cycle can flow.
    """

    def __init__(self, config, *, depth=Scratchpad.latency + 5):
        self._config = config
        self._depth = depth
        super().__init__(
            {
                "i": In(stream.Signature(LineRange)),
                "o": Out(stream.Signature(config.line_bits)),
                "port": Out(read_port(config)),
                "fault": Out(FaultSignature),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self._config
        m.submodules.lines = lines = Queue(config.line_bits, self._depth)
        connect_streams(m, lines.o, self.o)

        addr = Signal(config.line_addr_bits)
        left = Signal(17)
        busy, failed, last = Signal(), Signal(), Signal()
        room = Signal(range(self._depth + 1), init=self._depth)  # places not promised to a line
        do_request, do_pop, do_accept = Signal(), Signal(), Signal()
        in_range = Signal()
        m.d.comb += [
            self.port.request.payload.eq(addr),
            self.port.request.valid.eq(busy & (room != 0)),
            do_request.eq(self.port.request.valid & self.port.request.ready),
            lines.i.payload.eq(self.port.data),
            lines.i.valid.eq(self.port.data_valid),
            do_pop.eq(self.o.valid & self.o.ready),
            last.eq(left == 1),
            self.i.ready.eq((~busy | (do_request & last)) & ~failed),
            do_accept.eq(self.i.valid & self.i.ready),
            in_range.eq(self.i.payload.addr + self.i.payload.count <= config.lines),
            self.idle.eq(~busy & (room == self._depth)),
        ]
        m.d.sync += room.eq(room - do_request + do_pop)
        with m.If(do_request):
            m.d.sync += [addr.eq(addr + 1), left.eq(left - 1)]
        with m.If(do_accept):
            m.d.sync += [
                addr.eq(self.i.payload.addr),
                left.eq(self.i.payload.count),
                busy.eq(in_range),
                failed.eq(~in_range),
            ]
        with m.Elif(do_request & last):
            m.d.sync += busy.eq(0)
        m.d.sync += self.fault.valid.eq(do_accept & ~in_range)
        with m.If(do_accept):
            m.d.sync += [
                self.fault.payload.reason.eq(FaultReason.SCRATCHPAD_RANGE),
                self.fault.payload.index.eq(self.i.payload.index),
            ]
        return m
