"""Fetches a program from DRAM."""

from amaranth.hdl import Cat, Module, Mux, ResetInserter, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.axi import Response, read_client
from bertha.rtl.dma.signatures import response_reason
from bertha.rtl.isa import COMMAND_BITS, COMMAND_BYTES, FaultReason
from bertha.rtl.signatures import INDEX_BITS, EngineCommand, FaultSignature, window_layout
from bertha.rtl.stream import Queue

__all__ = ["Fetcher"]

_PREFETCHED_COMMANDS = 4


class Fetcher(wiring.Component):
    """Streams the commands of a program, a few of them fetched ahead.

    A command takes as many cycles as it has beats, and one more. Bursts are whole commands, or
    `config.burst_beats` where that is less; commands are aligned, so none crosses 4 KiB. What can't
    be fetched faults when everything before it has been taken: PROGRAM_LENGTH for a program of more
    commands than an index can count, MISALIGNED for an address that is no
    multiple of a command, DRAM_WINDOW for a command outside of the window (no burst is issued for
    it), AXI_SLVERR and AXI_DECERR for a bad response, AXI_PROTOCOL for a burst that ends before or after
    its length. A burst is over when its last beat says so. Beats of no burst are dropped; where no burst
    was wrong before, they fault at once, AXI_PROTOCOL.

    Ports
    -----
    start : In(1)
        Begins with the program at `addr` of `length` commands.
    addr, length : In
        Held from `start` for one cycle.
    abort : In(1)
        Level, until `idle`. Issues nothing more and drops everything.
    abandon : In(1)
        The beats that were asked for won't come.
    window : In(window_layout)
    dram : Out(read_client)
    stray : In(1)
        Somebody else got an answer that belongs to no burst: AXI_PROTOCOL, at once.
    o : Out(stream of EngineCommand)
    fault : Out(FaultSignature)
    index : Out
        Commands that were taken: the position of the next one.
    finished : Out(1)
        Every command has been taken.
    idle : Out(1)
        No read is on its way, and nothing that was read waits to be taken.
    reading : Out(1)
        A read is on its way.

    Parameters
    ----------
    config : Config
    """

    def __init__(self, config):
        self._config = config
        super().__init__(
            {
                "start": In(1),
                "addr": In(64),
                "length": In(32),
                "abort": In(1),
                "abandon": In(1),
                "window": In(window_layout(config)),
                "dram": Out(read_client(config)),
                "stray": In(1),
                "o": Out(stream.Signature(EngineCommand)),
                "fault": Out(FaultSignature),
                "index": Out(INDEX_BITS),
                "finished": Out(1),
                "idle": Out(1),
                "reading": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self._config
        addr_bits, beat_bits = config.axi_addr_bits, config.axi_data_bits
        command_beats = COMMAND_BITS // beat_bits
        burst_beats = min(command_beats, config.burst_beats)
        burst_bytes = burst_beats * config.axi_data_bytes
        capacity = _PREFETCHED_COMMANDS * command_beats
        beat_layout = data.StructLayout({"data": beat_bits, "resp": Response})
        beats = Queue(beat_layout, capacity, buffered=True)
        m.submodules.beats = ResetInserter(self.abandon)(beats)

        # Bursts: each is checked in one cycle and issued in the next ones.
        too_long, misaligned, checked, inside = Signal(), Signal(), Signal(), Signal()
        burst_addr = Signal(addr_bits + 1)  # with the top bit set: past the end of the address space
        bursts_left = Signal(INDEX_BITS + (command_beats // burst_beats - 1).bit_length())
        room = Signal(range(capacity + 1), init=capacity)
        coming = Signal(range(capacity // burst_beats + 1))  # bursts that were asked for and aren't over
        do_issue, do_beat = Signal(), Signal()
        m.d.comb += [
            self.dram.ar.valid.eq(checked & inside & (room >= burst_beats) & ~self.abort),
            self.dram.ar.payload.addr.eq(burst_addr),
            self.dram.ar.payload.len.eq(burst_beats - 1),
            do_issue.eq(self.dram.ar.valid & self.dram.ar.ready),
            self.idle.eq(~self.reading & (beats.level == 0)),
            self.reading.eq(coming != 0),
        ]
        m.d.sync += room.eq(room - Mux(do_issue, burst_beats, 0) + do_beat)
        with m.If(do_issue):
            m.d.sync += [
                burst_addr.eq(burst_addr + burst_bytes),
                bursts_left.eq(bursts_left - 1),
                checked.eq(0),
            ]
        with m.Elif(~checked & (bursts_left != 0)):
            m.d.sync += [
                checked.eq(1),
                inside.eq(
                    ~too_long
                    & ~misaligned
                    & ~burst_addr[-1]
                    & (burst_addr >= self.window.base)
                    & (burst_addr + burst_bytes <= self.window.limit)
                ),
            ]

        # A beat whose `last` is wrong for its place in the burst goes on as one with a bad response. There is
        # room for every beat, but for what follows in a burst that is too long.
        beat, r = Signal(range(max(burst_beats, 2))), self.dram.r
        arrives, broken, unasked = Signal(), Signal(), Signal()
        wrong = r.payload.last != (beat == burst_beats - 1)
        m.d.comb += [
            r.ready.eq(1),
            arrives.eq(r.valid & self.reading),
            unasked.eq(self.stray | (r.valid & ~self.reading & ~broken)),
            beats.i.valid.eq(arrives),
            beats.i.payload.data.eq(r.payload.data),
            beats.i.payload.resp.eq(
                Mux(wrong & (r.payload.resp == Response.OKAY), Response.EXOKAY, r.payload.resp)
            ),
        ]
        m.d.sync += coming.eq(coming + do_issue - (arrives & r.payload.last))
        with m.If(arrives):
            m.d.sync += [beat.eq(Mux(r.payload.last, 0, beat + 1)), broken.eq(broken | wrong)]

        # Beats are shifted into the command.
        command = Signal(COMMAND_BITS)
        gathered = Signal(range(command_beats + 1))
        length = Signal(INDEX_BITS)
        failed, error, starved = Signal(), Signal(), Signal()
        m.d.comb += [
            self.o.valid.eq(gathered == command_beats),
            self.o.payload.body.eq(command),
            self.o.payload.index.eq(self.index),
            beats.o.ready.eq(~self.o.valid | failed | self.abort),
            do_beat.eq(beats.o.valid & beats.o.ready),
            error.eq(do_beat & (beats.o.payload.resp != Response.OKAY)),
            starved.eq(checked & ~inside & self.idle & ~self.o.valid),
            self.finished.eq(self.index == length),
        ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += [gathered.eq(0), self.index.eq(self.index + 1)]
        with m.Elif(do_beat & ~error & ~failed):
            m.d.sync += [
                command.eq(Cat(command, beats.o.payload.data)[beat_bits:]),
                gathered.eq(gathered + 1),
            ]

        faulty = error | starved | unasked
        m.d.sync += self.fault.valid.eq(faulty & ~failed)
        with m.If(faulty & ~failed):
            m.d.sync += [failed.eq(1), self.fault.payload.index.eq(self.index)]
            with m.If(starved):
                m.d.sync += self.fault.payload.reason.eq(
                    Mux(
                        too_long,
                        FaultReason.PROGRAM_LENGTH,
                        Mux(misaligned, FaultReason.MISALIGNED, FaultReason.DRAM_WINDOW),
                    )
                )
            with m.Elif(error):
                m.d.sync += self.fault.payload.reason.eq(response_reason(beats.o.payload.resp))
            with m.Else():
                m.d.sync += self.fault.payload.reason.eq(FaultReason.AXI_PROTOCOL)

        with m.If(self.abort | (failed & ~self.start)):
            m.d.sync += [bursts_left.eq(0), checked.eq(0), gathered.eq(0)]
        with m.Elif(self.start):
            exceeds = self.length[INDEX_BITS:].any()
            length_now = self.length[:INDEX_BITS] | exceeds  # at least one, that can't be fetched
            past_end = self.addr[addr_bits:].any() if addr_bits < 64 else 0
            m.d.sync += [
                too_long.eq(exceeds),
                misaligned.eq(self.addr[: (COMMAND_BYTES - 1).bit_length()].any()),
                checked.eq(0),
                burst_addr.eq(Cat(self.addr[:addr_bits], past_end)),
                bursts_left.eq(length_now << (command_beats // burst_beats - 1).bit_length()),
                gathered.eq(0),
                self.index.eq(0),
                length.eq(length_now),
                failed.eq(0),
                room.eq(capacity),
                beat.eq(0),
                broken.eq(0),
            ]
        with m.If(self.abandon):
            m.d.sync += coming.eq(0)
        return m
