"""Expands GEMM commands into tiles."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.gemm.tile import PARAM_LINES, RECORDS_BITS, EpilogueTile, FeederTile, PackerTile
from bertha.rtl.isa import FaultReason, Opcode, command_layout, semaphore_layout
from bertha.rtl.signatures import (
    INDEX_BITS,
    LINE_ADDRESS_BITS,
    EngineCommand,
    FaultSignature,
    LineRange,
    SemaphoreUnits,
)

__all__ = ["TileSequencer"]


class TileSequencer(wiring.Component):
    """Takes a command's waits, checks its fields, and issues its tiles one after another.

    A tile is handed to all who work on it in the same cycle; while one of them has no room, the
    next tile waits. Tiles are issued as far ahead as their queues allow, a tile every three cycles
    at most.

    Ports
    -----
    command : In(stream of EngineCommand)
    wait : Out(stream of SemaphoreUnits)
    waiting : Out(1)
    a, b, residual, params : Out(streams of LineRange)
    feeder, epilogue, packer : Out(streams of FeederTile, EpilogueTile, PackerTile)
    do_issue : Out(1)
        A tile is issued.
    idle : Out(1)
        No command is held.
    fault : Out(FaultSignature)
    """

    def __init__(self, config):
        self._config = config
        ranges = stream.Signature(LineRange)
        super().__init__(
            {
                "command": In(stream.Signature(EngineCommand)),
                "wait": Out(stream.Signature(SemaphoreUnits)),
                "waiting": Out(1),
                "a": Out(ranges),
                "b": Out(ranges),
                "residual": Out(ranges),
                "params": Out(ranges),
                "feeder": Out(stream.Signature(FeederTile)),
                "epilogue": Out(stream.Signature(EpilogueTile)),
                "packer": Out(stream.Signature(PackerTile)),
                "do_issue": Out(1),
                "idle": Out(1),
                "fault": Out(FaultSignature),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self._config
        body = Signal(command_layout(Opcode.GEMM), reset_less=True)
        index = Signal(INDEX_BITS, reset_less=True)
        addresses = {
            name: Signal(LINE_ADDRESS_BITS, name=f"{name}_addr", reset_less=True)
            for name in ("a", "b", "c", "residue", "residual", "param")
        }
        left = Signal(16)
        slot, next_slot = Signal(9), Signal(9)
        started = Signal()  # wait1 was taken for this command already
        slot_used = body.row_factor | (body.statistics != 0)
        # What is decided with a wait is known a cycle before: who waits asks far away.
        legal, slot_legal, wait_only = Signal(), Signal(), Signal()
        m.d.comb += next_slot.eq(Mux(slot[8], slot, slot + body.slot_step))
        m.d.sync += [
            wait_only.eq(body.opcode == Opcode.GEMM_WAIT),
            legal.eq(
                (body.k != 0)
                & ~body.k[0]
                & (body.columns != 0)
                & (body.columns <= config.array_n)
                & (body.count != 0)
                & (body.statistics != 3)
                & ~(body.out16 & body.residue)
            ),
        ]

        wanted = Signal(semaphore_layout)
        taken = Signal()
        m.d.comb += [
            self.wait.valid.eq(wanted.enable),
            self.wait.payload.semaphore.eq(wanted.semaphore),
            self.wait.payload.amount.eq(wanted.amount),
            self.waiting.eq(wanted.enable & ~self.wait.ready),
            taken.eq(~wanted.enable | self.wait.ready),
        ]

        def refuse():
            m.d.sync += [
                self.fault.valid.eq(1),
                self.fault.payload.reason.eq(FaultReason.ILLEGAL_COMMAND),
                self.fault.payload.index.eq(index),
            ]
            m.next = "FAULT"

        with m.FSM() as fsm:
            m.d.comb += self.idle.eq(fsm.ongoing("IDLE"))
            with m.State("IDLE"):
                m.d.comb += self.command.ready.eq(1)
                m.d.sync += [
                    body.eq(self.command.payload.body),
                    index.eq(self.command.payload.index),
                    started.eq(0),
                ]
                with m.If(self.command.valid):
                    m.next = "CHECK"
            with m.State("CHECK"):
                m.d.sync += [address.eq(body[f"{name}_addr"]) for name, address in addresses.items()]
                m.d.sync += [
                    left.eq(body.count),
                    slot.eq(body.slot),
                    slot_legal.eq(~slot_used | (body.slot < config.row_slots)),
                ]
                m.next = "FIRST_WAIT"
            with m.State("FIRST_WAIT"):
                with m.If(~wait_only & ~legal):
                    refuse()
                with m.Else():
                    m.d.comb += wanted.eq(body.wait0)
                    with m.If(taken):
                        m.next = "TILE_WAIT"
            with m.State("TILE_WAIT"):
                with m.If(~wait_only & ~slot_legal):
                    refuse()
                with m.Else():
                    with m.If(~started | body.wait1_each):
                        m.d.comb += wanted.eq(body.wait1)
                    with m.If(taken):
                        m.d.sync += started.eq(1)
                        m.next = "ISSUE"
            with m.State("ISSUE"):
                with m.If(wait_only):
                    m.next = "IDLE"
                with m.Elif(self.do_issue):
                    m.d.sync += [
                        addresses["a"].eq(addresses["a"] + body.a_stride),
                        addresses["b"].eq(addresses["b"] + body.b_stride),
                        addresses["c"].eq(addresses["c"] + body.c_stride),
                        addresses["residue"].eq(addresses["residue"] + body.residue_stride),
                        addresses["residual"].eq(addresses["residual"] + body.residual_stride),
                        addresses["param"].eq(addresses["param"] + body.param_stride),
                        left.eq(left - 1),
                        slot.eq(next_slot),
                        slot_legal.eq(~slot_used | (next_slot < config.row_slots)),
                    ]
                    m.next = "TILE_WAIT"
                    with m.If(left == 1):
                        m.next = "IDLE"
            with m.State("FAULT"):
                pass

        targets = [self.a, self.b, self.residual, self.params]
        targets += [self.feeder, self.epilogue, self.packer]
        unused = {id(self.residual): ~body.residual, id(self.params): ~body.params}
        all_ready = Signal()
        ready = 1
        for target in targets:
            ready = ready & (target.ready | unused.get(id(target), 0))
        # Nobody else fills the queues, and the last tile was issued two cycles ago or more.
        m.d.sync += all_ready.eq(ready)
        m.d.comb += [
            self.do_issue.eq(fsm.ongoing("ISSUE") & ~wait_only & all_ready),
        ]
        for target in targets:
            m.d.comb += target.valid.eq(self.do_issue & ~unused.get(id(target), 0))

        last = left == 1
        for target, name, count in (
            (self.a, "a", body.k >> 1),
            (self.b, "b", body.k >> 1),
            (self.residual, "residual", body.columns),
            (self.params, "param", PARAM_LINES),
        ):
            m.d.comb += [
                target.payload.addr.eq(addresses[name]),
                target.payload.count.eq(count),
                target.payload.index.eq(index),
            ]
        records = Signal(RECORDS_BITS)
        with m.If(self.do_issue & body.params):
            m.d.sync += records.eq(records + 1)
        none = semaphore_layout.const({})
        feeder, epilogue, packer = (
            self.feeder.payload,
            self.epilogue.payload,
            self.packer.payload,
        )
        m.d.comb += [
            feeder.k.eq(body.k),
            feeder.a_unsigned.eq(body.a_unsigned),
            feeder.post0.eq(Mux(last | body.post0_each, body.post0, none)),
            feeder.records.eq(records + body.params),
            feeder.index.eq(index),
            packer.addr.eq(addresses["c"]),
            packer.residue_addr.eq(addresses["residue"]),
            packer.post1.eq(Mux(last | body.post1_each, body.post1, none)),
            packer.index.eq(index),
            epilogue.slot.eq(slot),
        ]
        m.d.comb += [
            epilogue[name].eq(body[name]) for name in EpilogueTile.as_shape().members if name != "slot"
        ]
        return m
