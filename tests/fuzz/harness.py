"""Runs random programs on the simulated chip, under nasty memories and nasty hosts, and judges what comes of it."""

import functools
from collections import Counter
from dataclasses import dataclass

import numpy as np

from bertha.compiler.disassemble import disassemble
from bertha.compiler.program import Command, Program
from bertha.errors import AcceleratorFault
from bertha.rtl.config import preset
from bertha.rtl.isa import COMMAND_BYTES, Engine, FaultReason, Opcode, Wide, decode
from bertha.rtl.registers import REGISTERS, Access
from bertha.runtime.driver import Driver
from bertha.runtime.transport import complete
from bertha.sim.build import build
from bertha.sim.library import LibraryTransport
from bertha.sim.memory import AddressWaits, Manners, Misdeed, Response, Stalls
from tests.fuzz.damage import ANY, Expected, damage, fields_of, ruin, stored
from tests.fuzz.generate import draw_case

__all__ = ["CHUNK", "Failure", "run_chunk", "simulation"]

CONFIG = preset("tiny4")
CHUNK = 100
"""Programs that share a simulation: one that fails only after others can be told by its chunk."""

GOOD_PROGRAMS = 6
ACTIONS = ("doorbell", "clear", "acknowledge", "interrupt", "read", "poke", "stop", "abandon", "reset")
ODDS = (0.2, 0.15, 0.1, 0.1, 0.1, 0.15, 0.1, 0.05, 0.05)
POKED = [register.name for register in REGISTERS if register.name.startswith(("program_", "window_"))]
LEFT_BEHIND = tuple(set(Misdeed) - {Misdeed.LAST_EARLY, Misdeed.LAST_LATE})
"""Misdeeds of which a later program would get answers, or wait for some that never come."""
FIELD_FAULTS = (
    FaultReason.ILLEGAL_COMMAND,
    FaultReason.SCRATCHPAD_RANGE,
    FaultReason.DRAM_WINDOW,
    FaultReason.MISALIGNED,
)
LONGEST_RUN = 150_000  # cycles that a program may be expected to take
LONG_RUN = 20_000  # cycles after which a program that takes longer is stopped
LATE_ANSWERS = 3000  # cycles of a memory that falls silent
ABANDONS = 3  # between two resets
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

    def burst_cycles(self, config):
        """About the cycles that the longest burst takes at most."""
        line, burst = self._costs(config)
        return line * config.burst_beats + burst

    def _costs(self, config):
        """Cycles of a line, and of a burst without its lines."""
        stalls = 1 - max(vars(self.stalls).values())
        stalls /= 1 + 3 * self.manners.silence * self.manners.silence_cycles
        beat = max(1, config.axi_data_bytes / self.bandwidth) / stalls * config.beats_per_line
        burst = (self.latency + self.write_latency) + 10 / stalls
        return beat, burst

    def cycles(self, code, config):
        """About the cycles that a program takes at most, one command after the other."""
        beat, burst = self._costs(config)
        total = 1000.0
        for start in range(0, len(code), COMMAND_BYTES):
            opcode, fields = fields_of(code[start : start + COMMAND_BYTES])
            total += 100 + 8 * beat + burst
            if opcode in (Opcode.LOAD, Opcode.STORE):
                lines, rows = fields["lines"], fields["rows"]
                total += rows * (lines * beat + (lines // 64 + 2) * burst)
            elif opcode == Opcode.GEMM:
                passes = 1 + (fields["wide"] != Wide.NONE)
                total += fields["count"] * (2 * passes * max(fields["k"], config.array_n) + 20)
            elif opcode in (Opcode.SOFTMAX, Opcode.LAYERNORM, Opcode.QUANTIZE):
                passes = 6 if fields.get("kept") else 1
                total += 8 * passes * min(fields["words"], 4096)
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
        self.abandons = 0
        self.known = len(self.transport.allocate(0, 1).violations)  # of simulations before, in this process

    def run(self, number):
        """Runs program `number` and then a good one."""
        self.random = random = np.random.default_rng([self.seed, number])
        self.log = []
        self.case = case = draw_case(random, CONFIG)
        self.timing = _draw_timing(random)
        self.expected, self.errors = Expected(), []
        self.misdeeds, self.stopped = [], False
        kinds = ("legal", "damaged", "ruined", "started wrong", "bus error", "bus misdeed")
        kind = kinds[int(random.choice(len(kinds), p=(0.33, 0.27, 0.15, 0.05, 0.1, 0.1)))]
        host = "waits" if random.random() < 0.55 else "meddles"
        if kind == "damaged":
            self.case, self.expected = damage(random, CONFIG, case)
        elif kind == "ruined":
            self.case, self.expected = ruin(random, CONFIG, case), ANY
            if self.timing.cycles(self.case.code, CONFIG) > LONGEST_RUN:
                host = "stops"
        elif kind == "bus error":
            self._draw_errors()
        elif kind == "bus misdeed":
            self._draw_misdeeds()
        self.start = (self.case.address, self.case.length, self.case.window)
        if kind == "started wrong":
            self._draw_start()
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

    def _draw_misdeeds(self):
        """Addresses where the memory breaks the rules of AXI."""
        random, (start, end) = self.random, self.case.window
        for _ in range(int(random.integers(1, 3))):
            low = int(random.integers(start, end))
            misdeed = Misdeed(int(random.choice(list(Misdeed))))
            high = min(low + int(random.choice([1, 64, 1000])), end)
            self.misdeeds.append((misdeed, low, high, int(random.integers(1, 6))))
        self.expected = ANY

    def _draw_start(self):
        """A host that gives a wrong address, length or window."""
        random, (start, end) = self.random, self.case.window
        address, length, window = self.start
        reason = FaultReason.DRAM_WINDOW
        match int(random.integers(5)):
            case 0:
                length = int(random.integers(1 << 24, 1 << 32))
                reason = FaultReason.PROGRAM_LENGTH
            case 1:
                address += int(random.integers(1, COMMAND_BYTES))
                reason = FaultReason.MISALIGNED
            case 2:
                places = (start // 64 * 64 - 64, end // 64 * 64 + 64, (1 << 40) + address)
                address = places[int(random.integers(3))] % (1 << 64)
            case 3:
                window = (end, start)
            case 4:
                window = (start + (1 << int(random.integers(CONFIG.axi_addr_bits, 63))), end)
        self.start = (address, length, window)
        self.expected = Expected(reason, Engine.SEQUENCER, 0)

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
        for misdeed, low, high, beats in self.misdeeds:
            memory.add_misdeed(misdeed, low, high, beats=beats)
        begin = self.transport.cycle
        complete(self.driver.start(*self.start))
        end = _End()
        if host == "meddles":
            end = self._meddle()
        elif host == "stops":
            if not complete(self.transport.wait_for_interrupt(int(self.random.integers(LONG_RUN)))):
                self._stop()
        if not (end.raced or end.reset):
            bound = 5000 + int(4 * self.timing.cycles(b"" if self.stopped else case.code, CONFIG))
            if self.stopped:
                bound += 2 * LATE_ANSWERS + int(40 * self.timing.burst_cycles(CONFIG))
            try:
                complete(self._finish(bound))
            except AcceleratorFault as fault:
                end.fault = fault
        end.cycles = self.transport.cycle - begin
        return end

    async def _finish(self, bound):
        """Waits for the end, whether or not it is told by an interrupt."""
        driver, transport = self.driver, self.transport
        if self._interrupts:
            await transport.wait_for_interrupt(bound)
        else:
            waited = 0
            while await driver.read("status") & 1 and waited < bound:
                transport.run(50)
                waited += 50
        if await driver.read("status") & 1:
            if not self.misdeeds:
                raise Failure(f"the program must end within {bound} cycles")
            # The bus owes an answer for ever.
            await driver.stop()
            self.stopped = True
            transport.run(100)
            await self._abandon()
        if not self._interrupts:
            if transport.interrupt:
                raise Failure("the interrupt must not be raised while it isn't enabled")
            await driver.write("irq_enable", 1)
            transport.run(3)
        if not self._acknowledged and not transport.interrupt:
            raise Failure("the interrupt must be raised at the end")
        try:
            counters = await driver.finish()
        except AcceleratorFault as fault:
            dispatched = await driver.read("commands_done")
            if fault.reason == FaultReason.HOST_STOP and fault.index != dispatched:
                raise Failure(f"HOST_STOP must name command {dispatched}, not {fault.index}") from None
            raise
        transport.run(3)
        if transport.interrupt:
            raise Failure("the interrupt must be lowered when it is acknowledged")
        if counters.commands != self.start[1]:
            raise Failure(f"commands_done must be {self.start[1]}, not {counters.commands}")

    def _stop(self):
        """Stops the program, sometimes while the memory doesn't answer; sometimes its answers are given up."""
        random, driver, transport = self.random, self.driver, self.transport
        if random.random() < 0.4:
            transport.memory.set_timing(latency=LATE_ANSWERS)
            transport.run(int(random.integers(1, 400)))
        complete(driver.stop())
        self.stopped = True
        if random.random() < 0.7:
            transport.run(int(random.integers(0, 600)))
            if complete(driver.owes_answers()) and self.abandons < ABANDONS:
                complete(self._abandon())

    async def _abandon(self):
        """Gives up the answers that are owed: the program ends at once."""
        self.log.append(f"cycle {self.transport.cycle}: abandon")
        owed = await self.driver.owes_answers()
        await self.driver.abandon()
        self.abandons += 1
        self.transport.run(20)
        if owed and await self.driver.read("status") & 1:
            raise Failure("the program must end when its answers are given up")

    _interrupts = True
    _acknowledged = False

    def _meddle(self):
        """Does what a host must be able to do at any time, while the program runs."""
        random, driver, transport = self.random, self.driver, self.transport
        self._interrupts, self._acknowledged = True, False
        span = min(self.timing.cycles(self.case.code, CONFIG) / 4, LONG_RUN)
        for _ in range(int(random.integers(1, 8))):
            wait = int(random.integers(1, max(2, int(span * (0.02, 0.1, 0.5)[int(random.integers(3))]))))
            action = ACTIONS[int(random.choice(len(ACTIONS), p=ODDS))]
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
                case "poke":
                    for name in random.choice(POKED, int(random.integers(1, 4))):
                        complete(driver.write(str(name), int(random.integers(1 << 32))))
                case "stop":
                    self._stop()
                    return _End()
                case "abandon":
                    if (
                        self.abandons < ABANDONS - 1
                    ):  # else, should there be something to give up, it is needed
                        complete(self._abandon())
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
        if violations := memory.violations[self.known :]:
            raise Failure(f"AXI4 was violated: {'; '.join(violations[:3])}")
        if end.raced or end.reset:
            self._check_stray(stored(case, config=CONFIG))
            return
        fault = end.fault
        stopped = fault is not None and fault.reason == FaultReason.HOST_STOP
        if stopped and not self.stopped:
            raise Failure("HOST_STOP must follow a stop")
        if expected is not ANY and not stopped:
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
        elif fault and fault.engine == Engine.STORE and fault.reason in FIELD_FAULTS:
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
        if self.abandons >= ABANDONS:
            self.transport.run(2 * LATE_ANSWERS)  # the last of the old answers
            end.reset = True
        if end.raced or end.reset or any(misdeed in LEFT_BEHIND for misdeed, *_ in self.misdeeds):
            self.transport.reset()
            self.abandons = 0
            if complete(self.driver.read("status")):
                raise Failure("status must be 0 after a reset")
        elif end.fault:
            if self.random.random() < 0.3:
                complete(self.driver.write("control", 1))  # ignored, before the clear
                self.transport.run(20)
                if complete(self.driver.read("status")) & 7 != 4:
                    raise Failure("a doorbell before the error is cleared must be ignored")
            complete(self.driver.clear())
            if complete(self.driver.read("status")) & 7:
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
        if violations := memory.violations[self.known :]:
            raise Failure(f"AXI4 was violated by the good program after it: {violations[0]}")

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
            *(f"misdeed {m.name}: {low:#x} to {high:#x}, {n} beats" for m, low, high, n in self.misdeeds),
            f"started: {self.start[0]:#x}, {self.start[1]}, {self.start[2][0]:#x} to {self.start[2][1]:#x}",
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
