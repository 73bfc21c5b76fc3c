"""Takes a command's semaphore waits before an engine starts it."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.isa import COMMAND_BITS, Opcode, command_layout, semaphore_layout
from bertha.rtl.signatures import EngineCommand, SemaphoreUnits

__all__ = ["Waits"]

_WAIT_OPCODE = 0xF
"""Low four bits of every opcode that only waits."""

_waits_layout = data.FlexibleLayout(
    COMMAND_BITS,
    {
        name: data.Field(semaphore_layout, command_layout(Opcode.GEMM_WAIT)[name].offset)
        for name in ("wait0", "wait1")
    },
)
"""Where every opcode that has waits keeps them."""


class Waits(wiring.Component):
    """Passes commands on once their enabled waits, `wait0` then `wait1`, are taken.

    Commands that only wait (`*_WAIT`) are consumed. Nothing is stored but which waits are taken:
    the command stays at `i`, which must hold it, and a command without waits passes in the same
    cycle. A wait costs a cycle and what the semaphore takes to grant it.

    Ports
    -----
    i : In(stream of EngineCommand)
    o : Out(stream of EngineCommand)
    hold : In(1)
        Nothing is taken for the command at `i` yet.
    more : In(stream of SemaphoreUnits)
        Units for a command that has passed, only with `hold`.
    wait : Out(stream of SemaphoreUnits)
        Units wanted; ready means that they are taken.
    waiting : Out(1)
        The command at `i` wants units that it doesn't have yet.
    """

    i: In(stream.Signature(EngineCommand))
    o: Out(stream.Signature(EngineCommand))
    hold: In(1)
    more: In(stream.Signature(SemaphoreUnits))
    wait: Out(stream.Signature(SemaphoreUnits))
    waiting: Out(1)

    def elaborate(self, platform) -> Module:
        m = Module()
        waits = data.View(_waits_layout, self.i.payload.body)
        taken0, taken1 = Signal(), Signal()
        wants0, wants1, only_waits = Signal(), Signal(), Signal()
        chosen = data.View(semaphore_layout, Mux(wants0, waits.wait0.as_value(), waits.wait1.as_value()))
        m.d.comb += [
            wants0.eq(waits.wait0.enable & ~taken0),
            wants1.eq(waits.wait1.enable & ~taken1),
            only_waits.eq(self.i.payload.body[:4] == _WAIT_OPCODE),
            self.waiting.eq(self.i.valid & (wants0 | wants1)),
            self.wait.valid.eq((self.waiting & ~self.hold) | self.more.valid),
            self.more.ready.eq(self.wait.ready),
            self.o.payload.eq(self.i.payload),
            self.o.valid.eq(self.i.valid & ~self.waiting & ~only_waits),
            self.i.ready.eq(self.i.valid & ~self.waiting & (only_waits | self.o.ready)),
        ]
        with m.If(self.more.valid):
            m.d.comb += self.wait.payload.eq(self.more.payload)
        with m.Else():
            m.d.comb += [
                self.wait.payload.semaphore.eq(chosen.semaphore),
                self.wait.payload.amount.eq(chosen.amount),
            ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [taken0.eq(0), taken1.eq(0)]
        with m.Elif(self.waiting & ~self.hold & self.wait.ready):
            with m.If(wants0):
                m.d.sync += taken0.eq(1)
            with m.Else():
                m.d.sync += taken1.eq(1)
        return m
