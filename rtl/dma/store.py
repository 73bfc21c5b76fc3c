"""Stores panels from the scratchpad to DRAM."""

from amaranth.hdl import Module, Mux, ResetInserter, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import Out

from bertha.rtl.axi import Response, burst_address, write_beat
from bertha.rtl.control.posts import PostPair, Posts
from bertha.rtl.control.waits import Waits
from bertha.rtl.dma.planner import BurstPlanner
from bertha.rtl.dma.signatures import burst_lines, engine_ports, response_reason, write_client
from bertha.rtl.scratchpad.reader import LineReader
from bertha.rtl.signatures import INDEX_BITS, read_port
from bertha.rtl.stream import Queue, Register, connect_streams

__all__ = ["StoreEngine"]


class StoreEngine(wiring.Component):
    """Executes STORE commands, a beat a cycle while the scratchpad grants the reads.

    A burst's address goes out when its lines begin to be read, which is while the burst before it
    still sends its last few lines, so bursts and commands follow one another without a gap. A
    command posts when DRAM has acknowledged its last burst. A response that comes before the last
    beat has left is a fault; one that comes while no burst is on its way is dropped.

    Ports
    -----
    port : Out(read_port)
        To the scratchpad.
    dram : Out(write_client)
    stray : Out(1)
        A response to no burst came.

    The others are `bertha.rtl.dma.signatures.engine_ports`. After an abort, the beats that are still due
    on the bus go out without a strobe.

    Parameters
    ----------
    config : Config
    """

    def __init__(self, config):
        self._config = config
        super().__init__(
            engine_ports(config)
            | {"port": Out(read_port(config)), "dram": Out(write_client(config)), "stray": Out(1)}
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self._config
        beats_per_line = config.beats_per_line
        data_layout = data.StructLayout({"lines": range(burst_lines(config) + 1), "index": INDEX_BITS})
        flight_layout = data.StructLayout({"index": INDEX_BITS, "last": 1, "posts": PostPair})

        waits, planner, posts = Waits(), BurstPlanner(config), Posts()
        reader = LineReader(config)
        m.submodules.waits = ResetInserter(self.abort)(waits)
        m.submodules.planner = ResetInserter(self.abort)(planner)
        m.submodules.posts = ResetInserter(self.abort)(posts)
        m.submodules.reader = ResetInserter(self.abort)(reader)
        m.submodules.aw = aw = Register(burst_address(config))
        m.submodules.w = w = Register(write_beat(config))
        m.submodules.sending = sending = Queue(data_layout, config.outstanding_bursts)
        m.submodules.flight = flight = Queue(flight_layout, config.outstanding_bursts)
        connect_streams(m, self.command, waits.i)
        connect_streams(m, waits.wait, self.wait)
        connect_streams(m, waits.o, planner.i)
        connect_streams(m, posts.o, self.post)
        connect_streams(m, aw.o, self.dram.aw)
        connect_streams(m, w.o, self.dram.w)
        wiring.connect(m, reader.port, wiring.flipped(self.port))
        m.d.comb += [
            planner.window_base.eq(self.window_base),
            planner.window_limit.eq(self.window_limit),
        ]

        # A burst starts: its address, its lines' way out and its response.
        failed = Signal()
        burst = planner.o.payload
        do_issue, may_issue = Signal(), Signal()
        m.d.comb += [
            may_issue.eq(
                planner.o.valid & aw.i.ready & sending.i.ready & flight.i.ready & ~failed & ~self.abort
            ),
            reader.i.valid.eq(may_issue),
            do_issue.eq(may_issue & reader.i.ready),
            planner.o.ready.eq(do_issue),
            aw.i.valid.eq(do_issue),
            sending.i.valid.eq(do_issue),
            flight.i.valid.eq(do_issue),
            reader.i.payload.addr.eq(burst.scratchpad_addr),
            reader.i.payload.count.eq(burst.lines),
            reader.i.payload.index.eq(burst.index),
            aw.i.payload.addr.eq(burst.addr),
            aw.i.payload.len.eq((burst.lines << (beats_per_line - 1).bit_length()) - 1),
            sending.i.payload.lines.eq(burst.lines),
            sending.i.payload.index.eq(burst.index),
            flight.i.payload.index.eq(burst.index),
            flight.i.payload.last.eq(burst.last),
            flight.i.payload.posts.eq(burst.posts),
        ]

        # Lines become beats.
        head = sending.o.payload
        beat, line = Signal(range(max(beats_per_line, 2))), Signal(range(burst_lines(config) + 1))
        do_beat, last_beat, last_line = Signal(), Signal(), Signal()
        m.d.comb += [
            last_beat.eq(beat == beats_per_line - 1),
            last_line.eq(line + 1 == head.lines),
            w.i.valid.eq(sending.o.valid & (reader.o.valid | self.abort)),
            w.i.payload.data.eq(reader.o.payload.word_select(beat, config.axi_data_bits)),
            w.i.payload.strb.eq(Mux(self.abort, 0, -1)),
            w.i.payload.last.eq(last_beat & last_line),
            do_beat.eq(w.i.valid & w.i.ready),
            reader.o.ready.eq(do_beat & last_beat),
            sending.o.ready.eq(do_beat & last_beat & last_line),
        ]
        with m.If(do_beat):
            m.d.sync += beat.eq(beat + 1)
            with m.If(last_beat):
                m.d.sync += [beat.eq(0), line.eq(line + 1)]
                with m.If(last_line):
                    m.d.sync += line.eq(0)
        m.d.sync += [self.active.eq(do_beat), self.index.eq(head.index)]

        # Responses come in the order of the bursts, since they all have the same ID. `sent` counts those
        # whose data have left and that have none yet.
        acknowledged, bad_response = Signal(), Signal()
        answered = flight.o.payload
        sent = Signal(range(2 * config.outstanding_bursts + 1))
        with m.If(~flight.o.valid):
            m.d.sync += sent.eq(0)
        with m.Else():
            leaves = w.o.valid & w.o.ready & w.o.payload.last
            m.d.sync += sent.eq(sent + leaves - (acknowledged & (sent != 0)))
        m.d.comb += [
            self.dram.b.ready.eq(~flight.o.valid | ~answered.last | posts.i.ready),
            acknowledged.eq(self.dram.b.valid & self.dram.b.ready & flight.o.valid),
            self.stray.eq(self.dram.b.valid & ~flight.o.valid),
            flight.o.ready.eq(acknowledged),
            bad_response.eq(acknowledged & ((self.dram.b.payload != Response.OKAY) | (sent == 0))),
            posts.i.valid.eq(acknowledged & answered.last & ~bad_response),
            posts.i.payload.eq(answered.posts),
        ]

        # The planner's bursts are younger than the responses, so a bad response goes first.
        m.d.sync += self.fault.valid.eq((bad_response | planner.fault.valid) & ~failed & ~self.abort)
        with m.If(bad_response):
            m.d.sync += [
                self.fault.payload.reason.eq(response_reason(self.dram.b.payload)),
                self.fault.payload.index.eq(answered.index),
            ]
        with m.Else():
            m.d.sync += self.fault.payload.eq(planner.fault.payload)
        with m.If(self.abort):
            m.d.sync += failed.eq(0)
        with m.Elif(bad_response | planner.fault.valid):
            m.d.sync += failed.eq(1)

        on_bus = Signal()
        m.d.comb += [
            # A response too many may be taken for that of a burst whose address or data are still due.
            on_bus.eq(flight.o.valid | aw.o.valid | sending.o.valid | w.o.valid),
            self.idle.eq(planner.idle & ~on_bus & posts.idle & reader.idle),
            self.waiting.eq(waits.waiting & self.idle),
        ]
        return m
