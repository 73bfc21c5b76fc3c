"""Stores panels from the scratchpad to DRAM."""

from amaranth.hdl import Module, Mux, ResetInserter, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.axi import Response, write_beat
from bertha.rtl.dma.activity import StoreActivity
from bertha.rtl.dma.planner import BurstPlanner
from bertha.rtl.dma.signatures import burst_lines, response_reason, write_client
from bertha.rtl.engine.border import Border
from bertha.rtl.engine.posts import PostPair
from bertha.rtl.engine.signatures import ControlSide
from bertha.rtl.engine.state import EngineState
from bertha.rtl.isa import Engine
from bertha.rtl.scratchpad.reader import LineReader
from bertha.rtl.signatures import EPOCH_BITS, INDEX_BITS, read_port, window_layout
from bertha.rtl.stream import Queue, Register, connect_streams

__all__ = ["StoreEngine"]


class StoreEngine(wiring.Component):
    """Executes STORE commands, a beat a cycle while the scratchpad grants the reads.

    A burst's address goes out when its lines begin to be read, which is while the burst before it
    still sends its last few lines, so bursts and commands follow one another without a gap. A
    command posts when DRAM has acknowledged its last burst.

    Ports
    -----
    control : In(ControlSide)
    window : In(window_layout)
    epoch : In(EPOCH_BITS)
        Of the bursts issued now. Changes only with `control.abandon`.
    read : Out(read_port)
        To the scratchpad.
    dram : Out(write_client)
    stray : Out(1)
        A response to no burst came.
    state : Out(EngineState)
        With cycle counters only.

    In an abort, the beats that are still due on the bus go out without a strobe. Those of bursts that
    were given up on do so before any beat of a later one, and nobody waits for their responses.

    Parameters
    ----------
    config : Config
    """

    READS, WRITES = ("read",), ()

    def __init__(self, config):
        self._config = config
        super().__init__(
            {
                "control": In(ControlSide),
                "window": In(window_layout(config)),
                "epoch": In(EPOCH_BITS),
                "read": Out(read_port(config)),
                "dram": Out(write_client(config)),
                "stray": Out(1),
            }
            | ({"state": Out(EngineState)} if config.cycle_counters else {})
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config, abort = self._config, self.control.abort
        beats_per_line = config.beats_per_line
        data_layout = data.StructLayout(
            {"lines": range(burst_lines(config) + 1), "index": INDEX_BITS, "epoch": EPOCH_BITS}
        )
        flight_layout = data.StructLayout({"index": INDEX_BITS, "last": 1, "posts": PostPair})

        m.submodules.border = border = Border(config, Engine.STORE)
        engine = border.engine
        wiring.connect(m, wiring.flipped(self.control), border.control)
        planner, reader = BurstPlanner(config), LineReader(config)
        flight = Queue(flight_layout, config.outstanding_bursts)
        m.submodules.planner = ResetInserter(abort)(planner)
        m.submodules.reader = ResetInserter(abort)(reader)
        m.submodules.flight = ResetInserter(self.control.abandon)(flight)
        m.submodules.aw = aw = Register(self.dram.aw.payload.shape())
        m.submodules.w = w = Register(write_beat(config))
        m.submodules.sending = sending = Queue(data_layout, config.outstanding_bursts)
        connect_streams(m, engine.command, planner.i)
        connect_streams(m, aw.o, self.dram.aw)
        connect_streams(m, w.o, self.dram.w)
        wiring.connect(m, reader.port, wiring.flipped(self.read))
        m.d.comb += planner.window.eq(self.window)

        # A burst starts: its address, its lines' way out and its response.
        burst = planner.o.payload
        do_issue, may_issue = Signal(), Signal()
        m.d.comb += [
            may_issue.eq(
                planner.o.valid & aw.i.ready & sending.i.ready & flight.i.ready & ~engine.stopped & ~abort
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
            aw.i.payload.epoch.eq(self.epoch),
            aw.i.payload.burst.addr.eq(burst.addr),
            aw.i.payload.burst.len.eq((burst.lines << (beats_per_line - 1).bit_length()) - 1),
            sending.i.payload.lines.eq(burst.lines),
            sending.i.payload.index.eq(burst.index),
            sending.i.payload.epoch.eq(self.epoch),
            flight.i.payload.index.eq(burst.index),
            flight.i.payload.last.eq(burst.last),
            flight.i.payload.posts.eq(burst.posts),
        ]

        # Lines become beats.
        head = sending.o.payload
        beat, line = Signal(range(max(beats_per_line, 2))), Signal(range(burst_lines(config) + 1))
        do_beat, last_beat, last_line = Signal(), Signal(), Signal()
        given_up, without_data = Signal(), Signal()
        m.d.comb += [
            given_up.eq(head.epoch != self.epoch),
            without_data.eq(abort | given_up),
            last_beat.eq(beat == beats_per_line - 1),
            last_line.eq(line + 1 == head.lines),
            w.i.valid.eq(sending.o.valid & (reader.o.valid | without_data)),
            w.i.payload.data.eq(reader.o.payload.word_select(beat, config.axi_data_bits)),
            w.i.payload.strb.eq(Mux(without_data, 0, -1)),
            w.i.payload.last.eq(last_beat & last_line),
            do_beat.eq(w.i.valid & w.i.ready),
            reader.o.ready.eq(do_beat & last_beat & ~without_data),
            sending.o.ready.eq(do_beat & last_beat & last_line),
        ]
        with m.If(do_beat):
            m.d.sync += beat.eq(beat + 1)
            with m.If(last_beat):
                m.d.sync += [beat.eq(0), line.eq(line + 1)]
                with m.If(last_line):
                    m.d.sync += line.eq(0)
        m.d.sync += engine.active.eq(do_beat & ~given_up)
        with m.If(do_beat):
            m.d.sync += engine.index.eq(head.index)

        # Responses come in the order of the bursts, since they all have the same ID. `sent` counts those
        # whose data have left and that have none yet; without a strobe they are nobody's.
        acknowledged, bad_response = Signal(), Signal()
        answered = flight.o.payload
        sent = Signal(range(2 * config.outstanding_bursts + 1))
        with m.If(~flight.o.valid):
            m.d.sync += sent.eq(0)
        with m.Else():
            leaves = w.o.valid & w.o.ready & w.o.payload.last & w.o.payload.strb[0]
            m.d.sync += sent.eq(sent + leaves - (acknowledged & (sent != 0)))
        m.d.comb += [
            self.dram.b.ready.eq(~flight.o.valid | ~answered.last | engine.post.ready),
            acknowledged.eq(self.dram.b.valid & self.dram.b.ready & flight.o.valid),
            self.stray.eq(self.dram.b.valid & ~flight.o.valid),
            flight.o.ready.eq(acknowledged),
            bad_response.eq(acknowledged & ((self.dram.b.payload != Response.OKAY) | (sent == 0))),
            engine.post.valid.eq(acknowledged & answered.last & ~bad_response),
            engine.post.payload.eq(answered.posts),
        ]

        # The planner's bursts are younger than the responses, so a bad response goes first. An answer
        # with an error may come while data are still owed: an abort waits for these too.
        m.d.comb += [
            engine.fault.valid.eq(bad_response | planner.fault.valid),
            engine.fault.payload.eq(planner.fault.payload),
            engine.busy.eq(
                ~planner.idle
                | ~reader.idle
                | flight.o.valid
                | (abort & (sending.o.valid | aw.o.valid | w.o.valid))
            ),
        ]
        with m.If(bad_response):
            m.d.comb += [
                engine.fault.payload.reason.eq(response_reason(self.dram.b.payload)),
                engine.fault.payload.index.eq(answered.index),
            ]
        if config.cycle_counters:
            m.submodules.activity = activity = StoreActivity()
            m.d.comb += [
                activity.active.eq(engine.active),
                activity.busy.eq(engine.busy),
                activity.due.eq(sending.o.valid),
                activity.beat.eq(w.i.valid),
                activity.ends.eq(sending.o.valid & sending.o.ready),
                activity.unanswered.eq(flight.o.valid),
                activity.refused.eq(self.read.request.valid & ~self.read.request.ready),
                self.state.eq(activity.state),
            ]
        return m
