"""Everything between the host and the engines."""

from amaranth.hdl import Array, Cat, Module, Mux, ResetInserter, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.axi import axi4_lite_signature, read_client
from bertha.rtl.control.command_queue import CommandQueue
from bertha.rtl.control.counters import Counters
from bertha.rtl.control.fetcher import Fetcher
from bertha.rtl.control.first_fault import FirstFault
from bertha.rtl.control.register_file import RegisterFile
from bertha.rtl.control.semaphores import Semaphores
from bertha.rtl.control.sequencer import ENGINES, Sequencer
from bertha.rtl.control.supervisor import Supervisor
from bertha.rtl.control.watchdog import Watchdog
from bertha.rtl.isa import Engine
from bertha.rtl.registers import ADDRESS_BITS
from bertha.rtl.signatures import INDEX_BITS, EngineCommand, FaultSignature, SemaphoreUnits
from bertha.rtl.stream import Register, connect_streams

__all__ = ["Control"]


class Control(wiring.Component):
    """Registers, program fetch and dispatch, semaphores, faults; only wires them together.

    Ports for each engine are in the order of `ENGINES`: load, store, GEMM, vector.

    Ports
    -----
    s_axil : In(axi4_lite_signature)
    irq : Out(1)
    fetch : Out(read_client)
    stray : In(1)
        An answer of the bus belongs to no burst.
    command : Out(stream of EngineCommand) x 4
    wait, post : In(stream of SemaphoreUnits) x 4
    fault : In(FaultSignature) x 4
    idle : In(1) x 4
        The engine holds nothing: no command, no result, no post. It may lag by up to four cycles.
    waiting : In(1) x 4
        The engine is blocked on a semaphore, at the head of its queue or inside.
    active : In(1) x 4
        Counted as busy.
    window_base, window_limit : Out
    abort : Out(1)
        Level, 32 cycles at least. GEMM and vector engine are reset by it; the DMA has an input.

    Parameters
    ----------
    config : Config
    """

    def __init__(self, config):
        self._config = config
        engines = len(ENGINES)
        super().__init__(
            {
                "s_axil": In(axi4_lite_signature(addr_bits=ADDRESS_BITS)),
                "irq": Out(1),
                "fetch": Out(read_client(config)),
                "stray": In(1),
                "command": Out(stream.Signature(EngineCommand)).array(engines),
                "wait": In(stream.Signature(SemaphoreUnits)).array(engines),
                "post": In(stream.Signature(SemaphoreUnits)).array(engines),
                "fault": In(FaultSignature).array(engines),
                "idle": In(1).array(engines),
                "waiting": In(1).array(engines),
                "active": In(1).array(engines),
                "window_base": Out(config.axi_addr_bits),
                "window_limit": Out(config.axi_addr_bits + 1),
                "abort": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self._config
        engines = range(len(ENGINES))
        m.submodules.registers = registers = RegisterFile(config)
        m.submodules.supervisor = supervisor = Supervisor()
        m.submodules.counters = counters = Counters()
        m.submodules.fetcher = fetcher = Fetcher(config)
        m.submodules.watchdog = watchdog = Watchdog()
        m.submodules.first_fault = first_fault = FirstFault(len(ENGINES) + 3)
        sequencer = Sequencer(config)
        semaphores = Semaphores(config, waiters=len(ENGINES), posters=len(ENGINES))
        stopped = ~supervisor.running
        m.submodules.sequencer = ResetInserter(stopped)(sequencer)
        m.submodules.semaphores = ResetInserter(stopped)(semaphores)
        wiring.connect(m, wiring.flipped(self.s_axil), registers.s_axil)
        wiring.connect(m, fetcher.dram, wiring.flipped(self.fetch))
        connect_streams(m, fetcher.o, sequencer.i)

        queues = [CommandQueue(config, engine) for engine in ENGINES]
        head_index = []
        for number, (engine, queue) in enumerate(zip(ENGINES, queues)):
            m.submodules[f"{engine.name.lower()}_queue"] = ResetInserter(stopped)(queue)
            connect_streams(m, sequencer.command[number], queue.i)
            connect_streams(m, queue.o, self.command[number])
            connect_streams(m, self.wait[number], semaphores.wait[number])
            # The engines' queues of posts end here: the arbitration is long enough by itself.
            post = Register(SemaphoreUnits)
            m.submodules[f"{engine.name.lower()}_post"] = ResetInserter(stopped)(post)
            connect_streams(m, self.post[number], post.i)
            connect_streams(m, post.o, semaphores.post[number])
            started = Signal(INDEX_BITS, name=f"started_{engine.name.lower()}")
            with m.If(queue.o.valid & queue.o.ready):
                m.d.sync += started.eq(queue.o.payload.index)
            head_index.append((queue.o.payload.index, started))

        # A program's address and window.
        addr_bits = config.axi_addr_bits
        base = Cat(registers.window_base, registers.window_base_high)
        limit = Cat(registers.window_limit, registers.window_limit_high)
        end = 1 << addr_bits
        with m.If(base >= end):
            m.d.sync += self.window_limit.eq(0)
        with m.Else():
            m.d.sync += self.window_limit.eq(Mux(limit > end, end, limit))
        m.d.sync += self.window_base.eq(base)
        m.d.comb += [
            fetcher.start.eq(supervisor.start),
            fetcher.abort.eq(supervisor.abort),
            fetcher.stray.eq(self.stray),
            fetcher.addr.eq(Cat(registers.program_addr, registers.program_addr_high)),
            fetcher.length.eq(registers.program_length),
            fetcher.window_base.eq(self.window_base),
            fetcher.window_limit.eq(self.window_limit),
        ]

        # Ends and faults.
        empty = Cat(~queue.o.valid for queue in queues).all()
        m.d.comb += [
            supervisor.unoccupied.eq(Cat(self.idle).all() & empty & semaphores.idle & ~sequencer.dispatched),
            supervisor.dispatch_done.eq(fetcher.finished),
            supervisor.bus_idle.eq(self.idle[0] & self.idle[1] & fetcher.idle),
            supervisor.fault_valid.eq(first_fault.first_valid),
            supervisor.fault.eq(first_fault.first),
            sequencer.quiet.eq(supervisor.quiet),
            self.abort.eq(supervisor.abort),
            watchdog.running.eq(supervisor.running),
            counters.start.eq(supervisor.start),
            counters.counting.eq(supervisor.counting),
            counters.dispatched.eq(sequencer.dispatched),
        ]
        # The watchdog is in no hurry.
        m.d.sync += watchdog.progress.eq(
            semaphores.granted | ~semaphores.idle | sequencer.dispatched | fetcher.reading
        )
        for number in engines:
            m.d.sync += watchdog.waiting[number].eq(self.waiting[number])
            head, started = head_index[number]
            engine_fault, deadlock = self.fault[number], watchdog.fault[number]
            source = first_fault.source[number]
            m.d.comb += [
                watchdog.idle[number].eq(self.idle[number]),
                watchdog.active[number].eq(self.active[number]),
                watchdog.index[number].eq(Mux(self.idle[number], head, started)),
                counters.active[number].eq(self.active[number]),
                first_fault.valid[number].eq(engine_fault.valid | deadlock.valid),
                source.engine.eq(ENGINES[number]),
                source.fault.eq(
                    Mux(
                        engine_fault.valid,
                        engine_fault.payload.as_value(),
                        deadlock.payload.as_value(),
                    )
                ),
            ]
        port = semaphores.fault_port
        for number, (component, valid) in enumerate(
            ((sequencer, sequencer.fault.valid), (fetcher, fetcher.fault.valid)), len(ENGINES)
        ):
            m.d.comb += [
                first_fault.valid[number].eq(valid),
                first_fault.source[number].fault.eq(component.fault.payload),
                first_fault.source[number].engine.eq(Engine.SEQUENCER),
            ]
        # Units carry no index: the last command that the engine started stands for its posts.
        m.d.comb += [
            first_fault.valid[-1].eq(semaphores.fault_valid),
            first_fault.source[-1].fault.reason.eq(semaphores.fault_reason),
            first_fault.source[-1].fault.index.eq(Array(started for _, started in head_index)[port]),
            first_fault.source[-1].engine.eq(Array(ENGINES)[port]),
        ]

        # Registers.
        m.d.comb += [
            supervisor.doorbell.eq(registers.control[0]),
            supervisor.clear.eq(registers.control[1]),
            supervisor.acknowledge.eq(registers.irq_status[0]),
            supervisor.irq_enable.eq(registers.irq_enable[0]),
            self.irq.eq(supervisor.irq),
            registers.irq_status_state.eq(supervisor.irq_pending),
            registers.status.eq(Cat(supervisor.busy, supervisor.done, supervisor.error)),
            registers.error_reason.eq(supervisor.error_reason),
            registers.error_index.eq(supervisor.error_index),
            registers.error_engine.eq(supervisor.error_engine),
            Cat(registers.cycles, registers.cycles_high).eq(counters.cycles),
            registers.commands_done.eq(counters.commands),
        ]
        for number, engine in enumerate(ENGINES):
            m.d.comb += getattr(registers, f"{engine.name.lower()}_busy").eq(counters.busy[number])
        return m
