"""Checks commands and hands them to their engines."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.isa import COMMAND_BITS, FaultReason, Opcode, command_layout, reserved_mask
from bertha.rtl.signatures import EngineCommand, FaultSignature

__all__ = ["Sequencer"]


class Sequencer(wiring.Component):
    """Dispatches in program order, one command in two cycles; BARRIER waits for all engines.

    A command with an unknown opcode, a reserved bit set, or an enabled semaphore field with no
    amount or of no semaphore, faults with ILLEGAL_COMMAND. Nothing is dispatched after a fault until
    reset.

    Ports
    -----
    i : In(stream of EngineCommand)
    command : Out(stream of EngineCommand) x engines
    quiet : In(1)
        No engine has anything to do.
    fault : Out(FaultSignature)
    dispatched : Out(1)
        A command, or a barrier, has been dealt with in this cycle.

    Parameters
    ----------
    config : Config
    kinds : sequence of Engine
        Who takes the commands of each port.
    """

    def __init__(self, config, kinds):
        self._config = config
        self._kinds = kinds
        super().__init__(
            {
                "i": In(stream.Signature(EngineCommand)),
                "command": Out(stream.Signature(EngineCommand)).array(len(kinds)),
                "quiet": In(1),
                "fault": Out(FaultSignature),
                "dispatched": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        body = self.i.payload.body
        checked, illegal, failed = Signal(), Signal(), Signal()
        is_barrier = Signal()
        goes_to = Signal(len(self._kinds))

        m.d.sync += checked.eq(self.i.valid & ~self.i.ready)
        m.d.sync += [
            illegal.eq(self._is_illegal(m, body)),
            is_barrier.eq(body[:8] == Opcode.BARRIER),
            goes_to.eq(Cat(body[4:8] == engine for engine in self._kinds)),
        ]

        may_go = Signal()
        m.d.comb += may_go.eq(self.i.valid & checked & ~illegal & ~failed)
        for number, command in enumerate(self.command):
            m.d.comb += [command.payload.eq(self.i.payload), command.valid.eq(may_go & goes_to[number])]
        m.d.comb += [
            self.i.ready.eq(
                may_go
                & (
                    (is_barrier & self.quiet)
                    | Cat(goes & c.ready for goes, c in zip(goes_to, self.command)).any()
                )
            ),
            self.dispatched.eq(self.i.valid & self.i.ready),
        ]
        m.d.sync += self.fault.valid.eq(self.i.valid & checked & illegal & ~failed)
        with m.If(self.i.valid & checked & illegal & ~failed):
            m.d.sync += [
                failed.eq(1),
                self.fault.payload.reason.eq(FaultReason.ILLEGAL_COMMAND),
                self.fault.payload.index.eq(self.i.payload.index),
            ]
        return m

    def _is_illegal(self, m, body):
        """Whether a command breaks a rule that holds for all engines."""
        is_opcode = {opcode: body[:8] == opcode for opcode in Opcode}
        # Bits that are reserved in the same opcodes are looked at together.
        groups = {}
        for bit in range(COMMAND_BITS):
            reserved_in = tuple(opcode for opcode in Opcode if reserved_mask(opcode) >> bit & 1)
            groups.setdefault(reserved_in, []).append(body[bit])
        reserved = [
            Cat(bits).any() & Cat(is_opcode[opcode] for opcode in opcodes).any()
            for opcodes, bits in groups.items()
            if opcodes
        ]
        fields = data.View(command_layout(Opcode.GEMM), body)
        semaphores = [
            field.enable & ((field.amount == 0) | (field.semaphore >= self._config.semaphores))
            for field in (fields.wait0, fields.wait1, fields.post0, fields.post1)
        ]
        unknown = ~Cat(is_opcode.values()).any()
        return Cat(unknown, *reserved, *semaphores).any()
