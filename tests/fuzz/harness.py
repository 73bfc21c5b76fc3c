"""Runs random programs on the simulated chip, under nasty memories and nasty hosts, and judges what comes of it."""

import functools
from collections import Counter
from dataclasses import dataclass

import numpy as np

from bertha.compiler.disassemble import disassemble
from bertha.compiler.program import Command, Program
from bertha.errors import AcceleratorFault
from bertha.rtl.config import preset
from bertha.rtl.isa import COMMAND_BYTES, Engine, FaultReason, Opcode, decode
from bertha.rtl.registers import REGISTERS, Access
from bertha.runtime.driver import Driver
from bertha.runtime.transport import complete
from bertha.sim.build import build
from bertha.sim.library import LibraryTransport
from bertha.sim.memory import AddressWaits, Manners, Response, Stalls
from tests.fuzz.damage import ANY, Expected, damage, fields_of, ruin, stored
from tests.fuzz.generate import draw_case

__all__ = ["CHUNK", "Failure", "run_chunk", "simulation"]

CONFIG = preset("tiny4")
CHUNK = 100
"""Programs that share a simulation: one that fails only after others can be told by its chunk."""

GOOD_PROGRAMS = 6
LONGEST_RUN = 150_000  # cycles that a program may be expected to take
LATE = 8  # cycles in which a register write and the end of a program can't be told apart


@functools.cache
def simulation():
    """The simulated chip, as the sources are now."""
    return build(CONFIG, notify=lambda what: print(f"{what} ...", flush=True))


class Failure(AssertionError):
    """The accelerator did something that it must not; the message shows the program and how it was run."""


@dataclass(frozen=True)
class _Timing:
    """How the memory behaves."""

    latency: int
    write_latency: int
    bandwidth: float
    outstanding: int
    stalls: Stalls
    seed: int
    manners: Manners = Manners()

    def put_on(self, memory):
        memory.set_timing(
            latency=self.latency,
            write_latency=self.write_latency,
            bandwidth=self.bandwidth,
            outstanding=self.outstanding,
        )
        memory.set_stalls(self.stalls, seed=self.seed)
        memory.set_manners(self.manners)

    def cycles(self, code, config):
        """About the cycles that a program takes at most, one command after the other."""
        stalls = 1 - max(vars(self.stalls).values())
        stalls /= 1 + 3 * self.manners.silence * self.manners.silence_cycles
        beat = max(1, config.axi_data_bytes / self.bandwidth) / stalls * config.beats_per_line
        burst = (self.latency + self.write_latency) + 10 / stalls
        total = 1000.0
        for start in range(0, len(code), COMMAND_BYTES):
            opcode, fields = fields_of(code[start : start + COMMAND_BYTES])
            total += 100 + 8 * beat + burst
            if opcode in (Opcode.LOAD, Opcode.STORE):
                lines, rows = fields["lines"], fields["rows"]
                total += rows * (lines * beat + (lines // 64 + 2) * burst)
            elif opcode == Opcode.GEMM:
                total += fields["count"] * (2 * max(fields["k"], config.array_n) + 20)
            elif opcode in (Opcode.SOFTMAX, Opcode.LAYERNORM, Opcode.QUANTIZE):
                total += 8 * min(fields["words"], 4096)
            elif opcode == Opcode.TABLE:
                total += 1000
        return total


def _draw_timing(random):
    def one_of(*choices):
        return choices[int(random.integers(len(choices)))]

    def odds():
        return one_of(0.0, 0.0, 0.1, 0.5, 0.9)

    if random.random() < 0.4:
        return _Timing(int(random.integers(1, 30)), 1, 1e9, 64, Stalls(), 0)
    return _Timing(
        latency=one_of(1, 2, int(random.integers(1, 60)), 300),
        write_latency=one_of(1, 2, int(random.integers(1, 60)), 300),
        bandwidth=one_of(1e9, 8.0, 5.0, 1.0),
        outstanding=one_of(1, 2, 8, 64),
        stalls=Stalls(odds(), odds(), odds(), odds(), odds()),
        seed=int(random.integers(1 << 30)),
        manners=_draw_manners(random) if random.random() < 0.6 else Manners(),
    )


def _draw_manners(random):
    waits = AddressWaits(int(random.integers(len(AddressWaits))))
    return Manners(
        interleave=bool(random.integers(2)),
        address_waits=waits,
        early_beats=256 if waits == AddressWaits.DATA_TAKEN else int(random.choice([0, 1, 7, 256])),
        silence=float(random.choice([0, 0, 0.001, 0.02])),
        silence_cycles=int(random.integers(1, 200)),
    )


@dataclass
class _End:
    """How a program ended: `fault` is None if it is done; `raced` if that can't be told."""

    fault: AcceleratorFault | None = None
    cycles: int = 0
    raced: bool = False
    reset: bool = False


class _Bench:
    """One simulation, and the programs that run on it one after the other."""

    def __init__(self, seed):
        self.seed = seed
        self.transport = LibraryTransport(simulation(), seed=seed % (1 << 31))
        self.driver = Driver(self.transport)
        self.transport.reset()
        self.good = [
            draw_case(np.random.default_rng([77, number]), CONFIG) for number in range(GOOD_PROGRAMS)
        ]
        self.tally = Counter()

    def run(self, number):
        """Runs program `number` and then a good one."""
        self.random = random = np.random.default_rng([self.seed, number])
        self.log = []
        self.case = case = draw_case(random, CONFIG)
        self.timing = _draw_timing(random)
        self.expected, self.errors = Expected(), []
        kind = ("legal", "damaged", "ruined", "bus error")[int(random.choice(4, p=(0.35, 0.3, 0.15, 0.2)))]
        if kind == "damaged":
            self.case, self.expected = damage(random, CONFIG, case)
        elif kind == "ruined":
            self.case, self.expected = ruin(random, CONFIG, case), ANY
            while self.timing.cycles(self.case.code, CONFIG) > LONGEST_RUN:
                self.case = ruin(random, CONFIG, case)
        elif kind == "bus error":
            self._draw_errors()
        host = "waits" if random.random() < 0.6 else "meddles"
        try:
            end = self._execute(host)
            self._judge(end)
            self._recover(end)
            self._run_good()
        except Failure as failure:
            raise Failure(self._describe(number, kind, host, failure)) from None
        except Exception as error:
            raise Failure(self._describe(number, kind, host, repr(error))) from error
        if end.raced or end.reset:
            ended = "reset"
        else:
            ended = end.fault.reason.name if end.fault else "done"
        self.tally[kind, host, ended] += 1
        return end.cycles

    # Bus errors.

    def _draw_errors(self):
        """Addresses that answer errors, and the fault that must come of it."""
        random, case = self.random, self.case
        start, end = case.window
        for _ in range(int(random.integers(1, 4))):
            low = int(random.integers(start, end))
            high = min(low + int(random.choice([1, 8, 64, 1000])), end)
            response = Response((2, 3)[int(random.integers(2))])
            on_read, on_write = ((True, True), (True, False), (False, True))[int(random.integers(3))]
            self.errors.append((low, high, response, on_read, on_write))
        touched = set()
        for number, engine, address, size in self._accesses():
            for low, high, response, on_read, on_write in self.errors:
                if (
                    (on_write if engine == Engine.STORE else on_read)
                    and address < high
                    and address + size > low
                ):
                    touched.add((number, engine, response))
        if len(touched) == 1:
            number, engine, response = touched.pop()
            self.expected = Expected(FaultReason[f"AXI_{response.name}"], engine, number)
        elif touched:
            self.expected = ANY

    def _accesses(self):
        """What a legal program reads and writes in memory: (command, engine, first byte, bytes)."""
        line = CONFIG.line_bytes
        for number in range(self.case.length):
            yield number, Engine.SEQUENCER, self.case.address + number * COMMAND_BYTES, COMMAND_BYTES
            opcode, fields = fields_of(self.case.code[number * COMMAND_BYTES : (number + 1) * COMMAND_BYTES])
            if opcode in (Opcode.LOAD, Opcode.STORE):
                for row in range(fields["rows"]):
                    yield (
                        number,
                        opcode.engine,
                        fields["dram_addr"] + row * fields["dram_stride"],
                        fields["lines"] * line,
                    )

    # Running.

    def _execute(self, host):
        """Runs the case to its end."""
        case = self.case
        case.store_code()
        memory = self.transport.allocate(case.base, len(case.before))
        memory.bytes[:] = case.before
        self.timing.put_on(memory)
        for low, high, response, on_read, on_write in self.errors:
            memory.add_error(low, high, response, on_read=on_read, on_write=on_write)
        begin = self.transport.cycle
        complete(self.driver.start(case.address, case.length, case.window))
        end = self._meddle() if host == "meddles" else _End()
        if not (end.raced or end.reset):
            bound = int(4 * self.timing.cycles(case.code, CONFIG)) + 5000
            try:
                complete(self._finish(bound))
            except AcceleratorFault as fault:
                end.fault = fault
        end.cycles = self.transport.cycle - begin
        return end

    async def _finish(self, bound):
        """Waits for the end, whether or not it is told by an interrupt."""
        driver = self.driver
        if self._interrupts:
            if not await self.transport.wait_for_interrupt(bound) and await driver.read("status") & 1:
                raise Failure(f"the program must end within {bound} cycles")
        else:
            waited = 0
            while await driver.read("status") & 1:
                if waited > bound:
                    raise Failure(f"the program must end within {bound} cycles")
                self.transport.run(50)
                waited += 50
            if self.transport.interrupt:
                raise Failure("the interrupt must not be raised while it isn't enabled")
            await driver.write("irq_enable", 1)
            self.transport.run(3)
        if not self._acknowledged and not self.transport.interrupt:
            raise Failure("the interrupt must be raised at the end")
        counters = await driver.finish()
        self.transport.run(3)
        if self.transport.interrupt:
            raise Failure("the interrupt must be lowered when it is acknowledged")
        if counters.commands != self.case.length:
            raise Failure(f"commands_done must be {self.case.length}, not {counters.commands}")

    _interrupts = True
    _acknowledged = False

    def _meddle(self):
        """Does what a host must be able to do at any time, while the program runs."""
        random, driver, transport = self.random, self.driver, self.transport
        self._interrupts, self._acknowledged = True, False
        span = self.timing.cycles(self.case.code, CONFIG)
        for _ in range(int(random.integers(1, 8))):
            wait = int(random.integers(1, max(2, int(span * (0.02, 0.1, 0.5)[int(random.integers(3))]))))
            actions = ["doorbell", "clear", "acknowledge", "interrupt", "read", "reset"]
            action = actions[int(random.choice(len(actions), p=(0.25, 0.2, 0.2, 0.1, 0.2, 0.05)))]
            if complete(transport.wait_for_interrupt(wait)) or not complete(driver.read("status")) & 1:
                return _End()
            self.log.append(f"cycle {transport.cycle}: {action}")
            match action:
                case "doorbell" | "clear":
                    complete(driver.write("control", 1 if action == "doorbell" else 2))
                    transport.run(LATE)
                    if transport.interrupt or not complete(driver.read("status")) & 1:
                        # It ended at the same time: whether that was a new start can't be told from outside.
                        return _End(raced=True)
                case "acknowledge":
                    complete(driver.write("irq_status", 1))
                    if not complete(driver.read("status")) & 1:
                        self._acknowledged = True  # the end itself, perhaps
                        return _End()
                case "interrupt":
                    self._interrupts = not self._interrupts
                    complete(driver.write("irq_enable", int(self._interrupts)))
                case "read":
                    self._read_registers()
                case "reset":
                    return _End(reset=True)
        return _End()

    def _read_registers(self):
        """Reads everything in any order; what is constant must be as ever."""
        complete(self.driver.check_identity(CONFIG))
        registers = [register for register in REGISTERS if register.access is not Access.WRITE_ONE]
        self.random.shuffle(registers)
        before = complete(self.driver.read_wide("cycles"))
        for register in registers[:8]:
            complete(self.driver.read(register.name))
        if complete(self.driver.read_wide("cycles")) < before:
            raise Failure("cycles must not go back while a program runs")

    # Judging.

    def _judge(self, end):
        case, memory, expected = self.case, self.transport.memory, self.expected
        if memory.violations:
            raise Failure(f"AXI4 was violated: {'; '.join(memory.violations[:3])}")
        if end.raced or end.reset:
            self._check_stray(stored(case, config=CONFIG))
            return
        fault = end.fault
        if expected is not ANY:
            found = Expected(fault.reason, fault.engine, fault.index) if fault else Expected()
            wanted = Expected(
                expected.reason,
                found.engine if expected.engine is None else expected.engine,
                found.index if expected.index is None else expected.index,
            )
            if found != wanted:
                raise Failure(f"the end must be {expected}, not {found}")
        if fault is None and case.after is not None:
            different = np.flatnonzero(memory.bytes != case.after)
            if len(different):
                raise Failure(
                    f"{len(different)} bytes of the results differ, from {case.base + different[0]:#x} on"
                )
            return
        last = None
        if fault and fault.engine == Engine.SEQUENCER:
            last = fault.index  # neither this command nor one after it was handed out
        elif (
            fault
            and fault.engine == Engine.STORE
            and fault.reason
            not in (
                FaultReason.AXI_SLVERR,
                FaultReason.AXI_DECERR,
                FaultReason.SEMAPHORE_OVERFLOW,
            )
        ):
            last = fault.index + 1
        self._check_stray(stored(case, config=CONFIG, end=last))

    def _check_stray(self, may):
        stray = np.flatnonzero((self.transport.memory.bytes != self.case.before) & ~may)
        if len(stray):
            raise Failure(
                f"{len(stray)} bytes were changed that no STORE may change, from "
                f"{self.case.base + stray[0]:#x} on"
            )

    def _recover(self, end):
        self._interrupts, self._acknowledged = True, False
        if end.raced or end.reset:
            self.transport.reset()
            if complete(self.driver.read("status")):
                raise Failure("status must be 0 after a reset")
        elif end.fault:
            if self.random.random() < 0.3:
                complete(self.driver.write("control", 1))  # ignored, before the clear
                self.transport.run(20)
                if complete(self.driver.read("status")) != 4:
                    raise Failure("a doorbell before the error is cleared must be ignored")
            complete(self.driver.clear())
            if complete(self.driver.read("status")):
                raise Failure("status must be 0 after a clear")
        elif self.random.random() < 0.3:
            complete(self.driver.clear())  # without an error: nothing

    def _run_good(self):
        """A legal program must run exactly, whatever came before."""
        good = self.good[int(self.random.integers(len(self.good)))]
        memory = self.transport.allocate(good.base, len(good.before))
        memory.bytes[:] = good.before
        memory.set_timing(latency=int(self.random.integers(1, 40)))
        try:
            complete(self.driver.run_program(good.address, good.length, good.window, timeout=100_000))
        except Exception as error:
            raise Failure(f"the good program after it must be done: {error}") from error
        if np.any(memory.bytes != good.after):
            raise Failure("the good program after it must leave its results and nothing else")
        if memory.violations:
            raise Failure(f"AXI4 was violated by the good program after it: {memory.violations[0]}")

    def _describe(self, number, kind, host, failure):
        case = self.case
        first = number - number % CHUNK
        lines = [
            f"program {number} of seed {self.seed} ({kind}, the host {host}): {failure}",
            f"alone: python -m tests.fuzz --seed {self.seed} --first {number} --programs 1; "
            f"after others: --first {first} --programs {number - first + 1}",
            f"expected: {self.expected or 'any end'}; {self.timing}",
            *(
                f"errors: {low:#x} to {high:#x} {r.name}, {read=}, {write=}"
                for low, high, r, read, write in self.errors
            ),
            *self.log,
            *_text(case),
        ]
        return "\n".join(lines)


def _text(case):
    """The program as text; commands that can't be decoded as their bytes."""
    commands = []
    for start in range(0, len(case.code), COMMAND_BYTES):
        content = case.code[start : start + COMMAND_BYTES]
        try:
            opcode, fields = decode(content)
            commands.append(Command(opcode=opcode, fields=fields, name=""))
        except ValueError:
            commands.append(Command(opcode=Opcode.BARRIER, fields={}, name=f"illegal: {content.hex()}"))
    return disassemble(
        Program(
            config=CONFIG,
            commands=commands,
            pieces=[],
            program_address=case.address,
            window=case.window,
            name="program",
        )
    )


def run_chunk(seed, first, programs):
    """Runs programs `first` to `first + programs` of a seed, on one simulation.

    Returns
    -------
    tally : Counter of (kind, host, end)
    cycles : int

    Raises
    ------
    Failure
        At the first program that fails.
    """
    bench = _Bench(seed)
    try:
        cycles = sum(bench.run(number) for number in range(first, first + programs))
    finally:
        bench.transport.close()
    return bench.tally, cycles
