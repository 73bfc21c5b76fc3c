"""Loads panels from DRAM into the scratchpad."""

from amaranth.hdl import Cat, Elaboratable, Module, ResetInserter, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.axi import Response, burst_address, read_beat, read_client
from bertha.rtl.dma.activity import LoadActivity
from bertha.rtl.dma.planner import BurstPlanner
from bertha.rtl.dma.signatures import burst_lines, response_reason
from bertha.rtl.engine.border import Border
from bertha.rtl.engine.posts import PostPair
from bertha.rtl.engine.signatures import ControlSide
from bertha.rtl.engine.state import EngineState
from bertha.rtl.isa import Engine
from bertha.rtl.scratchpad.writer import LineWriter
from bertha.rtl.signatures import INDEX_BITS, bank_write, window_layout
from bertha.rtl.stream import Queue, Register, connect_streams

__all__ = ["LoadEngine"]

_BLOCK_RAM_DEPTH = 64
"""From this depth on, a queue of beats is better off in block RAM."""


class LoadEngine(wiring.Component):
    """Executes LOAD commands, a beat a cycle at any latency that the outstanding bursts cover.

    A burst is issued only when there is room for all of its beats, so read data are never held up.
    The next command's bursts are issued while the previous one's data arrive. A command posts when
    the scratchpad has taken its last line. A line with an error response isn't written, nor is
    anything after it; so with a burst that ends before or after its length. A burst is over when its
    last beat says so. Beats of no burst are dropped.

    Ports
    -----
    control : In(ControlSide)
    window : In(window_layout)
    write : Out(stream of bank_write)
        To the scratchpad.
    dram : Out(read_client)
    stray : Out(1)
        A beat of no burst came.
    state : Out(EngineState)
        With cycle counters only.

    Parameters
    ----------
    config : Config
    """

    READS, WRITES = (), ("write",)

    def __init__(self, config):
        self._config = config
        super().__init__(
            {
                "control": In(ControlSide),
                "window": In(window_layout(config)),
                "write": Out(stream.Signature(bank_write(config))),
                "dram": Out(read_client(config)),
                "stray": Out(1),
            }
            | ({"state": Out(EngineState)} if config.cycle_counters else {})
        )

    def elaborate(self, platform) -> Elaboratable:
        m = Module()
        config, abort = self._config, self.control.abort
        beats_per_line = config.beats_per_line
        capacity = config.outstanding_bursts * burst_lines(config) * beats_per_line
        flight_layout = data.StructLayout(
            {
                "scratchpad_addr": config.line_addr_bits,
                "lines": range(burst_lines(config) + 1),
                "index": INDEX_BITS,
                "last": 1,
                "posts": PostPair,
            }
        )
        mark_layout = data.StructLayout({"last": 1, "posts": PostPair})

        m.submodules.border = border = Border(config, Engine.LOAD)
        engine = border.engine
        wiring.connect(m, wiring.flipped(self.control), border.control)
        planner = BurstPlanner(config)
        m.submodules.planner = ResetInserter(abort)(planner)
        m.submodules.ar = ar = Register(burst_address(config))
        m.submodules.flight = flight = Queue(flight_layout, config.outstanding_bursts)
        m.submodules.beats = beats = Queue(read_beat(config), capacity, buffered=capacity >= _BLOCK_RAM_DEPTH)
        m.submodules.writer = writer = LineWriter(config)
        m.submodules.marks = marks = Queue(mark_layout, 4)
        m.submodules.mark = mark = Register(mark_layout)  # cuts the queue off the scratchpad's arbitration
        connect_streams(m, marks.o, mark.i)
        connect_streams(m, engine.command, planner.i)
        connect_streams(m, ar.o, self.dram.ar)
        connect_streams(m, self.dram.r, beats.i)
        m.d.comb += planner.window.eq(self.window)

        # A burst stays in `flight` until its data have left `beats`, which has room for as many of the
        # longest bursts as `flight` holds.
        discard = Signal()
        burst = planner.o.payload
        do_issue, do_beat = Signal(), Signal()
        m.d.comb += [
            do_issue.eq(planner.o.valid & ar.i.ready & flight.i.ready & ~discard),
            discard.eq(engine.stopped | abort),
            planner.o.ready.eq(do_issue),
            ar.i.valid.eq(do_issue),
            ar.i.payload.addr.eq(burst.addr),
            ar.i.payload.len.eq((burst.lines << (beats_per_line - 1).bit_length()) - 1),
            flight.i.valid.eq(do_issue),
        ]
        m.d.comb += [flight.i.payload[name].eq(burst[name]) for name, _ in flight_layout]

        # Beats become lines; after a fault and during an abort they are dropped.
        head = flight.o.payload
        beat, line = Signal(range(max(beats_per_line, 2))), Signal(range(burst_lines(config) + 1))
        gathered = Signal((beats_per_line - 1) * config.axi_data_bits)
        last_beat, last_line, error = Signal(), Signal(), Signal()
        m.d.comb += [
            last_beat.eq(beat == beats_per_line - 1),
            last_line.eq(line + 1 == head.lines),
            error.eq(
                (beats.o.payload.resp != Response.OKAY) | (beats.o.payload.last != (last_beat & last_line))
            ),
            writer.i.payload.addr.eq(head.scratchpad_addr + line),
            writer.i.payload.data.eq(Cat(gathered, beats.o.payload.data)),
            writer.i.payload.index.eq(head.index),
            writer.i.valid.eq(beats.o.valid & flight.o.valid & last_beat & ~error & ~discard & marks.i.ready),
            marks.i.valid.eq(writer.i.valid & writer.i.ready),
            marks.i.payload.last.eq(head.last & last_line),
            marks.i.payload.posts.eq(head.posts),
            beats.o.ready.eq(~flight.o.valid | ~last_beat | (writer.i.ready & marks.i.ready)),
            do_beat.eq(beats.o.valid & beats.o.ready & flight.o.valid),
            flight.o.ready.eq(do_beat & beats.o.payload.last),
            self.stray.eq(beats.o.valid & ~flight.o.valid),
        ]
        with m.If(do_beat):
            m.d.sync += [
                beat.eq(beat + 1),
                gathered.eq(Cat(gathered, beats.o.payload.data)[config.axi_data_bits :]),
            ]
            with m.If(last_beat):
                m.d.sync += [beat.eq(0), line.eq(line + 1)]
            with m.If(beats.o.payload.last):
                m.d.sync += [beat.eq(0), line.eq(0)]
        m.d.sync += engine.active.eq(do_beat)
        with m.If(do_beat):
            m.d.sync += engine.index.eq(head.index)

        # A command is done when the scratchpad takes its last line.
        may_write, do_write = Signal(), Signal()
        m.d.comb += [
            may_write.eq(mark.o.valid & (~mark.o.payload.last | engine.post.ready)),
            self.write.payload.eq(writer.port.payload),
            self.write.valid.eq(writer.port.valid & may_write),
            writer.port.ready.eq(self.write.ready & may_write),
            do_write.eq(self.write.valid & self.write.ready),
            mark.o.ready.eq(do_write),
            engine.post.valid.eq(do_write & mark.o.payload.last),
            engine.post.payload.eq(mark.o.payload.posts),
        ]

        # The planner's bursts are younger than the data, so a bad response goes first.
        bad_response = Signal()
        m.d.comb += [
            bad_response.eq(do_beat & error & ~discard),
            engine.fault.valid.eq(bad_response | planner.fault.valid),
            engine.fault.payload.eq(planner.fault.payload),
            engine.busy.eq(~planner.idle | flight.o.valid | marks.o.valid | mark.o.valid | ~writer.idle),
        ]
        with m.If(bad_response):
            m.d.comb += [
                engine.fault.payload.reason.eq(response_reason(beats.o.payload.resp)),
                engine.fault.payload.index.eq(head.index),
            ]
        if config.cycle_counters:
            m.submodules.activity = activity = LoadActivity()
            m.d.comb += [
                activity.active.eq(engine.active),
                activity.busy.eq(engine.busy),
                activity.burst.eq(flight.o.valid),
                activity.beat.eq(beats.o.valid),
                activity.refused.eq(self.write.valid & ~self.write.ready),
                self.state.eq(activity.state),
            ]
        return ResetInserter(self.control.abandon)(m)
