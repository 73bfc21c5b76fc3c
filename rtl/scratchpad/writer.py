"""Checks and registers lines on their way into the scratchpad."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.isa import FaultReason
from rtl.signatures import FaultSignature, bank_write, line_write
from rtl.stream import Register

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

    def elaborate(self, platform):
        m = Module()
        config = self._config
        checked_line = data.StructLayout({"line": line_write(config), "in_range": 1})
        m.submodules.register = register = Register(checked_line)
        failed = Signal()
        checked, in_range = register.o.payload.line, register.o.payload.in_range
        m.d.comb += [
            register.i.payload.line.eq(self.i.payload),
            register.i.payload.in_range.eq(self.i.payload.addr < config.lines),
            register.i.valid.eq(self.i.valid & ~failed),
            self.i.ready.eq(register.i.ready & ~failed),
            self.port.payload.addr.eq(checked.addr),
            self.port.payload.data.eq(checked.data),
            self.port.valid.eq(register.o.valid & in_range & ~failed),
            register.o.ready.eq(self.port.ready | ~in_range | failed),
            self.idle.eq(~register.o.valid),
        ]
        m.d.sync += self.fault.valid.eq(register.o.valid & ~in_range & ~failed)
        with m.If(register.o.valid & ~in_range):
            m.d.sync += [
                failed.eq(1),
                self.fault.payload.reason.eq(FaultReason.SCRATCHPAD_RANGE),
                self.fault.payload.index.eq(checked.index),
            ]
        return m
