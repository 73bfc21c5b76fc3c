"""Expands GEMM commands into tiles."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.gemm.tile import PARAM_LINES, RECORDS_BITS, EpilogueTile, FeederTile, PackerTile
from bertha.rtl.isa import FaultReason, Opcode, Wide, command_layout, semaphore_layout
from bertha.rtl.signatures import (
    INDEX_BITS,
    LINE_ADDRESS_BITS,
    EngineCommand,
    FaultSignature,
    LineRange,
    SemaphoreUnits,
)

__all__ = ["TileSequencer"]

_ADDRESSES = ("a", "b", "c", "residue", "residual", "param")


class _Place(data.Struct):
    """Where a command has got to: the tile that is issued next."""

    left: 16  # tiles, with this one
    slot: 9  # with the bit that tells that it has left the slots
    a: LINE_ADDRESS_BITS
    b: LINE_ADDRESS_BITS
    c: LINE_ADDRESS_BITS
    residue: LINE_ADDRESS_BITS
    residual: LINE_ADDRESS_BITS
    param: LINE_ADDRESS_BITS
    key: 16  # of column 0


class TileSequencer(wiring.Component):
    """Checks a command's fields and issues its tiles one after another.

    The command's waits are taken before it comes; `wait` is for those of the tiles after the first,
    with `wait1_each`. A tile is handed to all who work on it in the same cycle; while one of them has
    no room, the next tile waits. Tiles are issued as far ahead as their queues allow, a tile every two
    cycles at most. A tile with a wide operand is issued as two passes: the first one, over the high plane,
    to the readers of A and B and the feeder only.

    Ports
    -----
    command : In(stream of EngineCommand)
    wait : Out(stream of SemaphoreUnits)
    hold : Out(1)
        The command's later tiles want units: no other's may be taken meanwhile.
    index : Out(24)
        Of the command in work.
    a, b, residual, params : Out(streams of LineRange)
    feeder, epilogue, packer : Out(streams of FeederTile, EpilogueTile, PackerTile)
    do_issue : Out(1)
        A tile is issued, all of it.
    busy : Out(1)
        A command is held, and doesn't wait for units.
    fault : Out(FaultSignature)
        ILLEGAL_COMMAND; not registered. The sequencer then wants a reset.
    """

    def __init__(self, config):
        self._config = config
        ranges = stream.Signature(LineRange)
        super().__init__(
            {
                "command": In(stream.Signature(EngineCommand)),
                "wait": Out(stream.Signature(SemaphoreUnits)),
                "hold": Out(1),
                "index": Out(INDEX_BITS),
                "a": Out(ranges),
                "b": Out(ranges),
                "residual": Out(ranges),
                "params": Out(ranges),
                "feeder": Out(stream.Signature(FeederTile)),
                "epilogue": Out(stream.Signature(EpilogueTile)),
                "packer": Out(stream.Signature(PackerTile)),
                "do_issue": Out(1),
                "busy": Out(1),
                "fault": Out(FaultSignature),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        body = Signal(command_layout(Opcode.GEMM), reset_less=True)
        index = Signal(INDEX_BITS, reset_less=True)
        place, following = Signal(_Place, reset_less=True), Signal(_Place)
        legal, slot_legal = Signal(), Signal()
        started = Signal()  # the first tile has been issued
        second, high_pass = Signal(), Signal()  # the low plane's pass; the high plane's
        low_place = Signal(LINE_ADDRESS_BITS, reset_less=True)  # of the wide operand's low plane
        wants, issuing, may_issue = Signal(), Signal(), Signal()
        m.d.comb += [
            following.eq(self._following(place, body)),
            high_pass.eq((body.wide != Wide.NONE) & ~second),
            wants.eq(started & ~second & body.wait1_each & body.wait1.enable),
            self.wait.payload.semaphore.eq(body.wait1.semaphore),
            self.wait.payload.amount.eq(body.wait1.amount),
            self.index.eq(index),
            self.do_issue.eq(issuing & may_issue & ~high_pass),
            self.fault.payload.reason.eq(FaultReason.ILLEGAL_COMMAND),
            self.fault.payload.index.eq(index),
        ]
        # What is decided with a wait is known a cycle before: who waits asks far away.
        m.d.sync += legal.eq(self._is_legal(body))

        m.d.comb += [self.busy.eq(1), self.hold.eq(body.wait1_each)]
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += [self.command.ready.eq(1), self.busy.eq(0), self.hold.eq(0)]
                m.d.sync += [
                    body.eq(self.command.payload.body),
                    index.eq(self.command.payload.index),
                    started.eq(0),
                    second.eq(0),
                ]
                with m.If(self.command.valid):
                    m.next = "LOAD"
            with m.State("LOAD"):
                m.d.sync += [place[name].eq(body[f"{name}_addr"]) for name in _ADDRESSES]
                m.d.sync += [
                    place.left.eq(body.count),
                    place.slot.eq(body.slot),
                    place.key.eq(body.first_key),
                    slot_legal.eq(self._is_slot_legal(body, body.slot)),
                ]
                m.next = "CHECK"
            with m.State("CHECK"):
                m.d.sync += low_place.eq(Mux(body.wide == Wide.A, place.a, place.b) + body.low_offset)
                with m.If(~legal | ~slot_legal):
                    m.d.comb += self.fault.valid.eq(1)
                    m.next = "FAULT"
                with m.Else():
                    m.d.comb += [self.wait.valid.eq(wants), self.busy.eq(~wants)]
                    with m.If(~wants | self.wait.ready):
                        m.next = "ISSUE"
            with m.State("ISSUE"):
                m.d.comb += issuing.eq(1)
                with m.If(may_issue & high_pass):
                    m.d.sync += second.eq(1)
                    m.next = "CHECK"
                with m.Elif(may_issue):
                    m.d.sync += [
                        second.eq(0),
                        place.eq(following),
                        slot_legal.eq(self._is_slot_legal(body, following.slot)),
                        started.eq(1),
                    ]
                    m.next = "CHECK"
                    with m.If(place.left == 1):
                        m.next = "IDLE"
            with m.State("FAULT"):
                pass

        self._hand_out(m, body, place, low_place, issuing, high_pass, second, may_issue)
        return m

    def _is_legal(self, body):
        """Whether the fields that are the same for all tiles keep their rules."""
        return (
            (body.k != 0)
            & ~body.k[0]
            & (body.columns != 0)
            & (body.columns <= self._config.array_n)
            & (body.count != 0)
            & (body.statistics != 3)
            & (body.wide != 3)
            & ~(body.out16 & (body.residue | body.out_wide))
        )

    def _is_slot_legal(self, body, slot):
        """Whether a tile's row slot exists, if the tile needs one."""
        return ~(body.row_factor | body.ranges | (body.statistics != 0)) | (slot < self._config.row_slots)

    @staticmethod
    def _following(place, body) -> Value:
        """The place after `place`."""
        steps = {name: (place[name] + body[f"{name}_stride"])[:LINE_ADDRESS_BITS] for name in _ADDRESSES}
        steps["left"] = (place.left - 1)[:16]
        steps["key"] = (place.key + body.key_step)[:16]
        steps["slot"] = Mux(place.slot[8], place.slot, place.slot + body.slot_step)[:9]
        return Cat(steps[name] for name in _Place.as_shape().members)

    def _hand_out(self, m, body, place, low_place, issuing, high_pass, second, may_issue):
        """Gives a pass to all who work on it when all of them have room, as `may_issue` says."""
        addresses = {name: place[name] for name in ("a", "b", "residual", "param")}
        for name, wide in (("a", Wide.A), ("b", Wide.B)):
            addresses[name] = Mux(second & (body.wide == wide), low_place, place[name])
        ranges = {
            "a": (self.a, body.k >> 1),
            "b": (self.b, body.k >> 1),
            "residual": (self.residual, body.columns),
            "param": (self.params, PARAM_LINES),
        }
        for name, (target, count) in ranges.items():
            m.d.comb += [
                target.payload.addr.eq(addresses[name]),
                target.payload.count.eq(count),
                target.payload.index.eq(self.index),
            ]
        whole = ~high_pass
        users = [(self.residual, body.residual & whole), (self.params, body.params & whole)]
        users += [(target, whole) for target in (self.epilogue, self.packer)]
        users += [(target, 1) for target in (self.a, self.b, self.feeder)]
        # Nobody else fills the queues, and the last tile was issued two cycles ago or more.
        m.d.sync += may_issue.eq(Cat(target.ready | ~used for target, used in users).all())
        m.d.comb += [target.valid.eq(issuing & may_issue & used) for target, used in users]

        records = Signal(RECORDS_BITS)
        with m.If(self.do_issue & body.params):
            m.d.sync += records.eq(records + 1)
        last = place.left == 1
        none = semaphore_layout.const({})
        feeder, epilogue, packer = self.feeder.payload, self.epilogue.payload, self.packer.payload
        m.d.comb += [
            feeder.k.eq(body.k),
            feeder.a_unsigned.eq(body.a_unsigned),
            feeder.wide_high.eq(high_pass),
            feeder.wide_low.eq(second),
            feeder.post0.eq(Mux((last | body.post0_each) & whole, body.post0, none)),
            feeder.records.eq(records + (body.params & whole)),
            feeder.index.eq(self.index),
            packer.addr.eq(place.c),
            packer.residue_addr.eq(place.residue),
            packer.post1.eq(Mux(last | body.post1_each, body.post1, none)),
            packer.index.eq(self.index),
            epilogue.slot.eq(place.slot),
            epilogue.first_key.eq(place.key),
        ]
        same = [name for name in EpilogueTile.as_shape().members if name not in ("slot", "first_key")]
        m.d.comb += [epilogue[name].eq(body[name]) for name in same]
