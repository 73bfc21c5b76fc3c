"""Everything between the host and the engines."""

from amaranth.hdl import Array, Cat, Module, Mux, ResetInserter, Shape, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.axi import axi4_lite_signature, read_client
from bertha.rtl.control.counters import Counters
from bertha.rtl.control.fetcher import Fetcher
from bertha.rtl.control.first_fault import FirstFault
from bertha.rtl.control.register_file import RegisterFile
from bertha.rtl.control.semaphores import Semaphores
from bertha.rtl.control.sequencer import Sequencer
from bertha.rtl.control.supervisor import Supervisor
from bertha.rtl.control.watchdog import Watchdog
from bertha.rtl.counters.classes import CycleClass
from bertha.rtl.counters.cycle_counters import CycleCounters
from bertha.rtl.engine.posts import PostPair
from bertha.rtl.engine.signatures import ControlSide
from bertha.rtl.engine.state import EngineState
from bertha.rtl.isa import Engine, Opcode, command_layout
from bertha.rtl.registers import ADDRESS_BITS
from bertha.rtl.signatures import EPOCH_BITS, window_layout
from bertha.rtl.stream import connect_streams

__all__ = ["Control"]


class Control(wiring.Component):
    """Registers, program fetch and dispatch, semaphores, faults; only wires them together.

    Ports
    -----
    s_axil : In(axi4_lite_signature)
    irq : Out(1)
    fetch : Out(read_client)
    stray : In(1)
        An answer of the bus belongs to no burst.
    engine : Out(ControlSide) x engines
    window : Out(window_layout)
        Of the program that runs.
    epoch : Out(EPOCH_BITS)
        Of the bursts that are issued now.
    state : In(EngineState) x engines
        With cycle counters only.
    classes : Out(CycleClass) x engines
        With cycle counters only: what they count, of two cycles before.

    Parameters
    ----------
    config : Config
    kinds : sequence of Engine
        Who has the port of the same number.
    """

    def __init__(self, config, kinds):
        self._config = config
        self._kinds = tuple(kinds)
        super().__init__(
            {
                "s_axil": In(axi4_lite_signature(addr_bits=ADDRESS_BITS)),
                "irq": Out(1),
                "fetch": Out(read_client(config)),
                "stray": In(1),
                "engine": Out(ControlSide).array(len(self._kinds)),
                "window": Out(window_layout(config)),
                "epoch": Out(EPOCH_BITS),
            }
            | (
                {
                    "state": In(EngineState).array(len(self._kinds)),
                    "classes": Out(CycleClass).array(len(self._kinds)),
                }
                if config.cycle_counters
                else {}
            )
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config, kinds = self._config, self._kinds
        count = len(kinds)
        m.submodules.registers = registers = RegisterFile(config)
        m.submodules.supervisor = supervisor = Supervisor()
        m.submodules.counters = counters = Counters(count)
        m.submodules.fetcher = fetcher = Fetcher(config)
        m.submodules.watchdog = watchdog = Watchdog(count)
        m.submodules.first_fault = first_fault = FirstFault(count + 3)
        sequencer = Sequencer(config, kinds)
        semaphores = Semaphores(config, waiters=count, posters=count)
        stopped = ~supervisor.running
        m.submodules.sequencer = ResetInserter(stopped)(sequencer)
        m.submodules.semaphores = ResetInserter(stopped)(semaphores)
        wiring.connect(m, wiring.flipped(self.s_axil), registers.s_axil)
        wiring.connect(m, fetcher.dram, wiring.flipped(self.fetch))
        # Nothing is dispatched in the cycle of a stop, which names the next command.
        m.d.comb += [
            sequencer.i.payload.eq(fetcher.o.payload),
            sequencer.i.valid.eq(fetcher.o.valid & ~supervisor.stop),
            fetcher.o.ready.eq(sequencer.i.ready),
        ]

        # What a program may rely on is taken with its doorbell.
        end = 1 << config.axi_addr_bits
        base = Cat(registers.window_base, registers.window_base_high)
        limit = Cat(registers.window_limit, registers.window_limit_high)
        with m.If(supervisor.start):
            m.d.sync += [
                self.window.base.eq(base),
                self.window.limit.eq(Mux(base >= end, 0, Mux(limit > end, end, limit))),
            ]
        m.d.comb += [
            fetcher.start.eq(supervisor.start),
            fetcher.abort.eq(supervisor.abort),
            fetcher.abandon.eq(supervisor.abandon),
            fetcher.stray.eq(self.stray),
            fetcher.addr.eq(Cat(registers.program_addr, registers.program_addr_high)),
            fetcher.length.eq(registers.program_length),
            fetcher.window.eq(self.window),
            self.epoch.eq(supervisor.epoch),
        ]

        # Engines.
        for number, (kind, engine) in enumerate(zip(kinds, self.engine)):
            connect_streams(m, sequencer.command[number], engine.command)
            connect_streams(m, engine.wait, semaphores.wait[number])
            connect_streams(m, engine.post, semaphores.post[number])
            deadlock, source = watchdog.fault[number], first_fault.source[number]
            m.d.comb += [
                engine.abort.eq(supervisor.abort),
                engine.abandon.eq(supervisor.abandon),
                watchdog.idle[number].eq(engine.idle),
                watchdog.blocked[number].eq(engine.waiting & ~engine.working),
                watchdog.index[number].eq(engine.waiting_index),
                counters.active[number].eq(engine.active),
                getattr(registers, f"{kind.name.lower()}_busy").eq(counters.busy[number]),
                first_fault.valid[number].eq(engine.fault.valid | deadlock.valid),
                source.engine.eq(kind),
                source.fault.eq(
                    Mux(engine.fault.valid, engine.fault.payload.as_value(), deadlock.payload.as_value())
                ),
            ]

        # Ends and faults.
        m.d.comb += [
            supervisor.unoccupied.eq(
                Cat(engine.idle for engine in self.engine).all() & semaphores.idle & ~sequencer.dispatched
            ),
            supervisor.dispatch_done.eq(fetcher.finished),
            supervisor.next_index.eq(fetcher.index),
            supervisor.bus_idle.eq(~Cat(engine.working for engine in self.engine).any() & fetcher.idle),
            supervisor.fault_valid.eq(first_fault.first_valid),
            supervisor.fault.eq(first_fault.first),
            sequencer.quiet.eq(supervisor.quiet),
            watchdog.running.eq(supervisor.running),
            counters.start.eq(supervisor.start),
            counters.counting.eq(supervisor.busy),
        ]
        # The watchdog is in no hurry.
        m.d.sync += watchdog.progress.eq(
            semaphores.granted | ~semaphores.idle | sequencer.dispatched | fetcher.reading
        )
        for number, component in enumerate((sequencer, fetcher), count):
            m.d.comb += [
                first_fault.valid[number].eq(component.fault.valid),
                first_fault.source[number].fault.eq(component.fault.payload),
                first_fault.source[number].engine.eq(Engine.SEQUENCER),
            ]
        # Units carry no index: the command that the engine worked on last stands for its posts.
        port = semaphores.fault_port
        m.d.comb += [
            first_fault.valid[-1].eq(semaphores.fault_valid),
            first_fault.source[-1].fault.reason.eq(semaphores.fault_reason),
            first_fault.source[-1].fault.index.eq(Array(engine.index for engine in self.engine)[port]),
            first_fault.source[-1].engine.eq(Array(kinds)[port]),
        ]

        # Registers.
        m.d.comb += [
            Cat(supervisor.doorbell, supervisor.clear, supervisor.stop, supervisor.give_up).eq(
                registers.control
            ),
            supervisor.acknowledge.eq(registers.irq_status[0]),
            supervisor.irq_enable.eq(registers.irq_enable[0]),
            self.irq.eq(supervisor.irq),
            registers.irq_status_state.eq(supervisor.irq_pending),
            registers.status.eq(Cat(supervisor.busy, supervisor.done, supervisor.error, supervisor.owed)),
            registers.error_reason.eq(supervisor.error_reason),
            registers.error_index.eq(supervisor.error_index),
            registers.error_engine.eq(supervisor.error_engine),
            Cat(registers.cycles, registers.cycles_high).eq(counters.cycles),
            registers.commands_done.eq(fetcher.index),
        ]
        if config.cycle_counters:
            m.submodules.cycle_counters = cycle_counters = CycleCounters(config, kinds)
            self._count_cycles(m, cycle_counters, registers, supervisor, counters, fetcher, sequencer)
        return m

    def _count_cycles(self, m, cycle_counters, registers, supervisor, counters, fetcher, sequencer):
        body = sequencer.i.payload.body
        first_post = command_layout(Opcode.GEMM)["post0"].offset
        m.d.comb += [
            cycle_counters.start.eq(supervisor.start),
            cycle_counters.counting.eq(supervisor.busy),
            cycle_counters.cycles.eq(counters.cycles),
            cycle_counters.snapshot.eq(registers.control[4]),
            cycle_counters.finished.eq(fetcher.finished),
            cycle_counters.dispatched.eq(Cat(c.valid & c.ready for c in sequencer.command).any()),
            Value.cast(cycle_counters.engine).eq(body[4:8]),
            cycle_counters.posts.eq(body[first_post : first_post + Shape.cast(PostPair).width]),
            cycle_counters.select.eq(registers.count_select),
            registers.count.eq(cycle_counters.count),
            Cat(registers.snapshot_cycles, registers.snapshot_cycles_high).eq(cycle_counters.snapshot_cycles),
        ]
        for number, engine in enumerate(self.engine):
            m.d.comb += [
                cycle_counters.state[number].eq(self.state[number]),
                self.classes[number].eq(cycle_counters.classes[number]),
                cycle_counters.waiting[number].eq(engine.waiting),
                cycle_counters.idle[number].eq(engine.idle),
                cycle_counters.semaphore[number].eq(engine.wait.payload.semaphore),
            ]
