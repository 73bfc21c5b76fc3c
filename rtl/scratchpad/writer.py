"""Checks and registers lines on their way into the scratchpad."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.isa import FaultReason
from bertha.rtl.signatures import INDEX_BITS, FaultSignature, bank_write, line_write
from bertha.rtl.stream import Queue, Register

__all__ = ["LineWriter"]


class LineWriter(wiring.Component):
    """Passes lines on to the scratchpad, a line a cycle; one outside of it faults and is dropped.

    After a fault nothing is taken until reset.

    Ports
    -----
    i : In(stream of line_write)
    port : Out(stream of bank_write)
        To the scratchpad.
    fault : Out(FaultSignature)
    idle : Out(1)
        No line is held.

    Parameters
    ----------
    config : Config
    """

    def __init__(self, config):
        self._config = config
        super().__init__(
            {
                "i": In(stream.Signature(line_write(config))),
                "port": Out(stream.Signature(bank_write(config))),
                "fault": Out(FaultSignature),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self._config
        # The scratchpad's answer comes late, and it decides when a line leaves. So only what the
        # scratchpad decides on is in a skid buffer; the line itself is beside it in memory, where
        # leaving moves a pointer only. Both hold two and take a cycle: they move together.
        checked = data.StructLayout({"addr": config.line_addr_bits, "in_range": 1})
        line = data.StructLayout({"data": config.line_bits, "index": INDEX_BITS})
        m.submodules.register = register = Register(checked)
        m.submodules.lines = lines = Queue(line, 2)
        failed = Signal()
        in_range = register.o.payload.in_range
        m.d.comb += [
            register.i.payload.addr.eq(self.i.payload.addr),
            register.i.payload.in_range.eq(self.i.payload.addr < config.lines),
            register.i.valid.eq(self.i.valid & ~failed),
            lines.i.payload.data.eq(self.i.payload.data),
            lines.i.payload.index.eq(self.i.payload.index),
            lines.i.valid.eq(register.i.valid),
            self.i.ready.eq(register.i.ready & ~failed),
            self.port.payload.addr.eq(register.o.payload.addr),
            self.port.payload.data.eq(lines.o.payload.data),
            self.port.valid.eq(register.o.valid & in_range & ~failed),
            register.o.ready.eq(self.port.ready | ~in_range | failed),
            lines.o.ready.eq(register.o.ready),
            self.idle.eq(~register.o.valid),
        ]
        m.d.sync += self.fault.valid.eq(register.o.valid & ~in_range & ~failed)
        with m.If(register.o.valid & ~in_range):
            m.d.sync += [
                failed.eq(1),
                self.fault.payload.reason.eq(FaultReason.SCRATCHPAD_RANGE),
                self.fault.payload.index.eq(lines.o.payload.index),
            ]
        return m
