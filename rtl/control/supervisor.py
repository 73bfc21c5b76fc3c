"""Starts and ends programs."""

from amaranth.hdl import Module, Signal
from amaranth.lib import enum, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.control.first_fault import FaultSource
from bertha.rtl.isa import Engine
from bertha.rtl.signatures import INDEX_BITS, fault_reason_bits

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
    that no fault can still be under way. The first fault makes it abort, for `ABORT_CYCLES` at
    least and until the bus is quiet; then it is in error until `clear`.

    Ports
    -----
    doorbell, clear, acknowledge : In(1)
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
    quiet : Out(1)
        `unoccupied` for `SETTLE_CYCLES` on end.
    start : Out(1)
        A program starts after this cycle.
    counting : Out(1)
        Cycles count as the program's.
    running, abort, busy, done, error : Out(1)
    error_reason, error_index, error_engine : Out
    irq_pending, irq : Out(1)
    """

    SETTLE_CYCLES = 8
    ABORT_CYCLES = 32

    doorbell: In(1)
    clear: In(1)
    acknowledge: In(1)
    irq_enable: In(1)
    dispatch_done: In(1)
    unoccupied: In(1)
    bus_idle: In(1)
    fault_valid: In(1)
    fault: In(FaultSource)
    quiet: Out(1)
    start: Out(1)
    counting: Out(1)
    running: Out(1)
    abort: Out(1)
    busy: Out(1)
    done: Out(1)
    error: Out(1)
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
                with m.If(self.fault_valid):
                    m.d.sync += [
                        state.eq(State.ABORTING),
                        self.abort.eq(1),
                        self.error_reason.eq(self.fault.fault.reason),
                        self.error_index.eq(self.fault.fault.index),
                        self.error_engine.eq(self.fault.engine),
                    ]
                with m.Elif(self.dispatch_done & self.quiet):
                    m.d.comb += ends.eq(1)
                    m.d.sync += state.eq(State.DONE)
            with m.Case(State.ABORTING):
                with m.If(aborted != self.ABORT_CYCLES):
                    m.d.sync += aborted.eq(aborted + 1)
                with m.Elif(self.bus_idle):
                    m.d.comb += ends.eq(1)
                    m.d.sync += [state.eq(State.ERROR), self.abort.eq(0), aborted.eq(0)]
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
            self.counting.eq(self.busy),
            self.done.eq(state == State.DONE),
            self.error.eq(state == State.ERROR),
        ]
        with m.If(ends):
            m.d.sync += self.irq_pending.eq(1)
        with m.Elif(self.acknowledge):
            m.d.sync += self.irq_pending.eq(0)
        m.d.sync += self.irq.eq(self.irq_pending & self.irq_enable)
        return m
