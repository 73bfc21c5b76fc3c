"""Starts and ends programs."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import enum, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.control.first_fault import FaultSource
from bertha.rtl.isa import Engine, FaultReason
from bertha.rtl.signatures import EPOCH_BITS, INDEX_BITS, fault_reason_bits

__all__ = ["State", "Supervisor"]


class State(enum.Enum, shape=3):
    """What the accelerator does."""

    IDLE = 0
    RUNNING = 1
    ABORTING = 2
    DONE = 3
    ERROR = 4


class Supervisor(wiring.Component):
    """The state of the accelerator, its errors and its interrupt.

    A doorbell starts a program unless one is running or an error is pending. The program is done
    when all of its commands are dispatched and everything has been quiet for `SETTLE_CYCLES`, so
    that no fault can still be under way. The first fault, or software's stop, makes it abort, for
    `ABORT_CYCLES` at least and until the bus is quiet or software gives up what it owes; then it is in
    error until `clear`. A stop in the cycle of a fault or of the end comes too late.

    Each program whose answers were given up leaves an epoch behind, so that the answers are known if they
    come after all. When the last epoch is in use, nothing is given up any more.

    Ports
    -----
    doorbell, clear, stop, give_up, acknowledge : In(1)
        Strobes from software; `acknowledge` ends the interrupt.
    irq_enable : In(1)
    dispatch_done : In(1)
        All commands of the program have been dispatched.
    unoccupied : In(1)
        No engine, queue or post is busy in this cycle.
    bus_idle : In(1)
        Nothing is on the bus.
    fault_valid : In(1)
    fault : In(FaultSource)
    next_index : In
        The command that is dispatched next.
    quiet : Out(1)
        `unoccupied` for `SETTLE_CYCLES` on end.
    start : Out(1)
        A program starts after this cycle.
    running, abort, busy, done, error : Out(1)
    owed : Out(1)
        The bus still owes answers to a program that was stopped.
    abandon : Out(1)
        In the last cycle of an abort: they are given up.
    epoch : Out
        Of the bursts that are issued now.
    error_reason, error_index, error_engine : Out
    irq_pending, irq : Out(1)
    """

    SETTLE_CYCLES = 8
    ABORT_CYCLES = 32

    doorbell: In(1)
    clear: In(1)
    stop: In(1)
    give_up: In(1)
    acknowledge: In(1)
    irq_enable: In(1)
    dispatch_done: In(1)
    unoccupied: In(1)
    bus_idle: In(1)
    fault_valid: In(1)
    fault: In(FaultSource)
    next_index: In(INDEX_BITS)
    quiet: Out(1)
    start: Out(1)
    running: Out(1)
    abort: Out(1)
    busy: Out(1)
    done: Out(1)
    error: Out(1)
    owed: Out(1)
    abandon: Out(1)
    epoch: Out(EPOCH_BITS)
    error_reason: Out(fault_reason_bits)
    error_index: Out(INDEX_BITS)
    error_engine: Out(Engine)
    irq_pending: Out(1)
    irq: Out(1)

    def elaborate(self, platform) -> Module:
        m = Module()
        state = Signal(State)
        settled = Signal(range(self.SETTLE_CYCLES + 1))
        aborted = Signal(range(self.ABORT_CYCLES + 1))
        ends = Signal()

        with m.If(~self.unoccupied | self.start):
            m.d.sync += settled.eq(0)
        with m.Elif(~self.quiet):
            m.d.sync += settled.eq(settled + 1)
        m.d.comb += self.quiet.eq(settled == self.SETTLE_CYCLES)

        with m.Switch(state):
            with m.Case(State.IDLE, State.DONE), m.If(self.doorbell):
                m.d.comb += self.start.eq(1)
                m.d.sync += state.eq(State.RUNNING)
            with m.Case(State.RUNNING):
                with m.If(self.dispatch_done & self.quiet & ~self.fault_valid):
                    m.d.comb += ends.eq(1)
                    m.d.sync += state.eq(State.DONE)
                with m.Elif(self.fault_valid | self.stop):
                    first, stopped = self.fault, ~self.fault_valid
                    m.d.sync += [
                        state.eq(State.ABORTING),
                        self.abort.eq(1),
                        self.error_reason.eq(Mux(stopped, FaultReason.HOST_STOP, first.fault.reason)),
                        self.error_index.eq(Mux(stopped, self.next_index, first.fault.index)),
                        self.error_engine.eq(Mux(stopped, Engine.SEQUENCER, first.engine)),
                    ]
            with m.Case(State.ABORTING):
                with m.If(aborted != self.ABORT_CYCLES):
                    m.d.sync += aborted.eq(aborted + 1)
                with m.Elif(self.bus_idle | self.abandon):
                    m.d.comb += ends.eq(1)
                    m.d.sync += [
                        state.eq(State.ERROR),
                        self.abort.eq(0),
                        self.abandon.eq(0),
                        self.epoch.eq(self.epoch + self.abandon),
                        aborted.eq(0),
                    ]
                with m.Else():
                    m.d.comb += self.owed.eq(1)
                    m.d.sync += self.abandon.eq(self.give_up & ~self.epoch.all())
            with m.Case(State.ERROR), m.If(self.clear):
                m.d.sync += [
                    state.eq(State.IDLE),
                    self.error_reason.eq(0),
                    self.error_index.eq(0),
                    self.error_engine.eq(0),
                ]

        m.d.comb += [
            self.running.eq(state == State.RUNNING),
            self.busy.eq(self.running | (state == State.ABORTING)),
            self.done.eq(state == State.DONE),
            self.error.eq(state == State.ERROR),
        ]
        with m.If(ends):
            m.d.sync += self.irq_pending.eq(1)
        with m.Elif(self.acknowledge):
            m.d.sync += self.irq_pending.eq(0)
        m.d.sync += self.irq.eq(self.irq_pending & self.irq_enable)
        return m
