"""Streams ranges of lines out of the scratchpad."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.isa import FaultReason
from bertha.rtl.scratchpad.scratchpad import Scratchpad
from bertha.rtl.signatures import FaultSignature, LineRange, read_port
from bertha.rtl.stream import Queue, connect_streams

__all__ = ["LineReader"]


class LineReader(wiring.Component):
    """Turns line ranges into their lines, in order, a line a cycle while the scratchpad grants it.

    Ranges follow one another without a bubble. A range that leaves the scratchpad faults before
    any of it is read, and nothing is read after it until reset. A reset must last longer than the
    scratchpad's latency, so that no line asked for before it comes after it.

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
        Lines that may be on their way or waiting. A line a cycle needs 2 more than the scratchpad's
        latency; what is above that absorbs pauses.
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

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self._config
        m.submodules.lines = lines = Queue(config.line_bits, self._depth)
        connect_streams(m, lines.o, self.o)

        # Whoever asks does not wait for the scratchpad's answer in the same cycle. That answer
        # decides when a range leaves, so ranges are in memory, where leaving moves a pointer only,
        # and are checked on the way in.
        checked_range = data.StructLayout({"range": LineRange, "in_range": 1})
        m.submodules.ranges = ranges = Queue(checked_range, 2)
        failed = Signal()
        m.d.comb += [
            ranges.i.payload.range.eq(self.i.payload),
            ranges.i.payload.in_range.eq(self.i.payload.addr + self.i.payload.count <= config.lines),
            ranges.i.valid.eq(self.i.valid & ~failed),
            self.i.ready.eq(ranges.i.ready & ~failed),
        ]
        following, in_range = ranges.o.payload.range, ranges.o.payload.in_range

        addr = Signal(config.line_addr_bits)
        left = Signal(17)
        requesting = Signal()  # `busy` and a place is free, known a cycle ahead
        busy, last = Signal(), Signal()
        room = Signal(range(self._depth + 1), init=self._depth)  # places not promised to a line
        do_request, do_pop, do_accept = Signal(), Signal(), Signal()
        busy_next, room_next = Signal(), Signal()
        m.d.comb += [
            self.port.request.payload.eq(addr),
            self.port.request.valid.eq(requesting),
            do_request.eq(self.port.request.valid & self.port.request.ready),
            lines.i.payload.eq(self.port.data),
            lines.i.valid.eq(self.port.data_valid),
            do_pop.eq(self.o.valid & self.o.ready),
            ranges.o.ready.eq((~busy | (do_request & last)) & ~failed),
            do_accept.eq(ranges.o.valid & ranges.o.ready),
            self.idle.eq(~busy & ~ranges.o.valid & (room == self._depth)),
            busy_next.eq(Mux(do_accept, in_range, busy & ~(do_request & last))),
            room_next.eq(do_pop | (room > 1) | ((room == 1) & ~do_request)),
        ]
        m.d.sync += [
            room.eq(room - do_request + do_pop),
            busy.eq(busy_next),
            requesting.eq(busy_next & room_next),
        ]
        with m.If(do_request):
            m.d.sync += [addr.eq(addr + 1), left.eq(left - 1), last.eq(left == 2)]
        with m.If(do_accept):
            m.d.sync += [
                addr.eq(following.addr),
                left.eq(following.count),
                last.eq(following.count == 1),
                failed.eq(~in_range),
            ]
        m.d.comb += self.fault.payload.reason.eq(FaultReason.SCRATCHPAD_RANGE)
        m.d.sync += [self.fault.valid.eq(do_accept & ~in_range), self.fault.payload.index.eq(following.index)]
        return m
