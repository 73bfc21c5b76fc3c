"""Cuts 2-D transfers into AXI bursts."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.dma.checker import BurstChecker
from bertha.rtl.dma.signatures import burst_layout, burst_lines
from bertha.rtl.engine.posts import PostPair
from bertha.rtl.isa import FaultReason, Opcode, command_layout
from bertha.rtl.signatures import EngineCommand, FaultSignature, fault_reason_bits, window_layout
from bertha.rtl.stream import connect_streams

__all__ = ["BurstPlanner"]

_PAGE_BYTES = 4096


class BurstPlanner(wiring.Component):
    """Turns LOAD and STORE commands into bursts of whole lines, in order.

    A burst has at most `config.burst_beats` beats, stays in its row, and never crosses 4 KiB. One is
    planned every two cycles, and a few wait at `o`. The first row that leaves the scratchpad and the
    first burst that leaves the window fault instead of coming out; so do fields that are against
    their rule, before anything of the command comes out. Nothing comes out after a fault until reset.

    Addresses keep every bit they may need: one that passes the end of the address space is outside
    the window, it doesn't wrap.

    Ports
    -----
    i : In(stream of EngineCommand)
    o : Out(stream of burst_layout)
    window : In(window_layout)
    fault : Out(FaultSignature)
    idle : Out(1)

    Parameters
    ----------
    config : Config
    depth : int
        Bursts that may wait at `o`.
    """

    def __init__(self, config, *, depth=4):
        self._config = config
        self._depth = depth
        super().__init__(
            {
                "i": In(stream.Signature(EngineCommand)),
                "o": Out(stream.Signature(burst_layout(config))),
                "window": In(window_layout(config)),
                "fault": Out(FaultSignature),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self._config
        addr_bits = config.axi_addr_bits
        line_shift = (config.line_bytes - 1).bit_length()
        command = data.View(command_layout(Opcode.LOAD), self.i.payload.body)
        m.submodules.checker = checker = BurstChecker(config, depth=self._depth)
        connect_streams(m, checker.o, self.o)
        wiring.connect(m, checker.fault, wiring.flipped(self.fault))

        # The command under way. Addresses have one more bit than they need in range; a DRAM address
        # with that bit set lies past the end of the address space.
        busy, sized = Signal(), Signal()
        reason = Signal(fault_reason_bits)
        stride, lines, rows_left = Signal(32), Signal(16), Signal(16)
        scratchpad_stride = Signal(16)
        index = Signal.like(self.i.payload.index)
        posts = Signal(PostPair)
        row_addr, next_row_addr = Signal(addr_bits + 1), Signal(addr_bits + 1)
        row_line, next_row_line = Signal(25), Signal(25)
        row_end = Signal(26)
        addr, line, left = Signal(addr_bits + 1), Signal(25), Signal(16)
        count = Signal(range(burst_lines(config) + 1))
        row_ends = Signal()
        m.d.comb += [
            checker.window.eq(self.window),
            self.i.ready.eq(~busy),
            self.idle.eq(~busy & checker.idle),
            row_ends.eq(left == count),
        ]

        with m.If(self.i.valid & self.i.ready):
            past_end = command.dram_addr[addr_bits:].any() if addr_bits < 64 else 0
            start = Cat(command.dram_addr[:addr_bits], past_end)
            m.d.sync += [
                busy.eq(1),
                sized.eq(0),
                reason.eq(self._field_fault(command, line_shift)),
                index.eq(self.i.payload.index),
                posts.post0.eq(command.post0),
                posts.post1.eq(command.post1),
                stride.eq(command.dram_stride),
                scratchpad_stride.eq(command.scratchpad_stride),
                lines.eq(command.lines),
                rows_left.eq(command.rows),
                row_addr.eq(start),
                addr.eq(start),
                row_line.eq(command.scratchpad_addr),
                line.eq(command.scratchpad_addr),
                left.eq(command.lines),
            ]

        # First cycle of a burst: its length, and where the next row would be.
        far_row = Signal(max(addr_bits + 1, 32) + 1)
        m.d.comb += far_row.eq(row_addr + stride)
        with m.If(busy & ~sized):
            m.d.sync += [
                sized.eq(1),
                count.eq(self._burst_length(addr[line_shift:], left)),
                next_row_addr.eq(Cat(far_row[:addr_bits], far_row[addr_bits:].any())),
                next_row_line.eq(row_line + scratchpad_stride),
                row_end.eq(row_line + lines),
            ]

        # Second cycle: the burst goes to be checked, and on to the next one.
        end = Signal(addr_bits + 2)
        burst = checker.i.payload.burst
        off_scratchpad = Mux(row_end > config.lines, FaultReason.SCRATCHPAD_RANGE, FaultReason.NONE)
        m.d.comb += [
            end.eq(addr + (count << line_shift)),
            checker.i.valid.eq(busy & sized),
            checker.i.payload.end.eq(end),
            checker.i.payload.reason.eq(Mux(reason != FaultReason.NONE, reason, off_scratchpad)),
            burst.addr.eq(addr),
            burst.scratchpad_addr.eq(line),
            burst.lines.eq(count),
            burst.index.eq(index),
            burst.last.eq(row_ends & (rows_left == 1)),
            burst.posts.eq(posts),
        ]
        with m.If(checker.i.valid & checker.i.ready):
            m.d.sync += [
                sized.eq(0),
                addr.eq(Cat(end[:addr_bits], end[addr_bits:].any())),
                line.eq(line + count),
                left.eq(left - count),
            ]
            with m.If(row_ends):
                m.d.sync += [
                    busy.eq(rows_left != 1),
                    rows_left.eq(rows_left - 1),
                    row_addr.eq(next_row_addr),
                    addr.eq(next_row_addr),
                    row_line.eq(next_row_line),
                    line.eq(next_row_line),
                    left.eq(lines),
                ]
        return m

    def _burst_length(self, first_line, left):
        """Lines of the burst that begins with the `first_line` of DRAM, in a row with `left` lines left."""
        page_lines = _PAGE_BYTES // self._config.line_bytes
        in_page = page_lines - first_line[: (page_lines - 1).bit_length()]
        longest = burst_lines(self._config)
        limit = Mux(in_page < longest, in_page, longest)
        return Mux(left < limit, left, limit)

    @staticmethod
    def _field_fault(command, line_shift) -> Value:
        """The reason, if the fields themselves are against their rules."""
        empty = (command.lines == 0) | (command.rows == 0)
        misaligned = (command.dram_addr[:line_shift] | command.dram_stride[:line_shift]).any()
        return Mux(
            empty, FaultReason.ILLEGAL_COMMAND, Mux(misaligned, FaultReason.MISALIGNED, FaultReason.NONE)
        )
