"""Control with fake engines: programs, faults, registers."""

import random

import pytest

from bertha.rtl.config import PRESETS
from bertha.rtl.isa import FaultReason, Opcode, encode, reserved_mask, semaphore
from bertha.rtl.registers import IDENTITY, REGISTERS, VERSION, Access, offset_of, registers_of
from tests.rtl.control.harness import ENGINES, Harness, units_of

TINY, EDGE = PRESETS["tiny4"], PRESETS["edge8"]
NARROW = EDGE.replace(axi_data_bits=32, burst_beats=4, semaphores=8, queue_depth=2)
CONFIGS = {"tiny4": TINY, "edge8": EDGE, "narrow": NARROW}
BUSY, DONE, ERROR = 1, 2, 4
ADDR = 0x1F80  # the program crosses 4 KiB
WORKERS = [Opcode.LOAD, Opcode.STORE, Opcode.GEMM, Opcode.SOFTMAX, Opcode.LAYERNORM, Opcode.QUANTIZE]
WAITERS = [Opcode.LOAD_WAIT, Opcode.STORE_WAIT, Opcode.GEMM_WAIT, Opcode.VECTOR_WAIT]


def legal_program(rng, config, length):
    """Commands that, one after the other, always find their units; barriers between some."""
    counts = [0] * config.semaphores
    commands = []
    for _ in range(length):
        if rng.random() < 0.05:
            commands.append((Opcode.BARRIER, {}))
            continue
        opcode = rng.choice(WORKERS + WAITERS[:1])
        fields = {}
        for name in ("wait0", "wait1"):
            # A semaphore is only ever waited for by one engine.
            mine = [s for s in range(config.semaphores) if s % 4 == opcode.engine - 1 and counts[s]]
            if mine and rng.random() < 0.6:
                number = rng.choice(mine)
                amount = rng.randint(1, counts[number])
                counts[number] -= amount
                fields[name] = semaphore(number, amount)
        if opcode not in WAITERS:
            for name in ("post0", "post1"):
                number, amount = rng.randrange(config.semaphores), rng.randint(1, 5)
                if rng.random() < 0.5 and counts[number] + amount < 200:
                    counts[number] += amount
                    fields[name] = semaphore(number, amount)
        commands.append((opcode, fields))
    return commands


def check_run(harness, program):
    """The log of the fake engines against the program."""
    starts = {index: (cycle, engine) for cycle, kind, engine, index in harness.events if kind == "start"}
    ends = {index: cycle for cycle, kind, _, index in harness.events if kind == "end"}
    for engine in range(ENGINES):
        mine = [i for i, (op, _) in enumerate(program) if op.engine == engine + 1 and op not in WAITERS]
        assert harness.engines[engine].log == mine
    for index, (opcode, _) in enumerate(program):
        if opcode is Opcode.BARRIER:
            for other, (cycle, _) in starts.items():
                assert cycle > max((ends[i] for i in ends if i < index), default=-1) or other < index
    # At every start, the units that were taken by then must have been posted by then.
    balance = {}
    order = sorted(
        [(cycle, 0, "post", index) for index, cycle in ends.items()]
        + [(cycle, 1, "wait", index) for index, (cycle, _) in starts.items()]
    )
    for _, _, kind, index in order:
        for name, field in program[index][1].items():
            if name.startswith(kind):
                number, amount = units_of(field)
                balance[number] = balance.get(number, 0) + (amount if kind == "post" else -amount)
                assert balance[number] >= 0


@pytest.mark.parametrize("name", CONFIGS)
def test_two_random_programs_back_to_back(name):
    config = CONFIGS[name]
    harness = Harness(config, seed=3, work=(0, 12))
    rng = random.Random(4)

    async def bench(ctx):
        for number in range(2):
            program = legal_program(rng, config, 60)
            harness.events.clear()
            for engine in harness.engines:
                engine.log.clear()
                engine.busy_cycles = 0
            harness.load_program([encode(op, **fields) for op, fields in program], ADDR)
            before = harness.cycle
            await harness.start(ctx, ADDR, len(program))
            assert await harness.get(ctx, "status") == BUSY
            assert await harness.until_irq(ctx) == DONE, number
            check_run(harness, program)
            cycles = await harness.get(ctx, "cycles")
            last = max(cycle for cycle, *_ in harness.events)
            assert last - before - 200 < cycles < harness.cycle - before
            assert await harness.get(ctx, "commands_done") == len(program)
            for engine, register in zip(harness.engines, ("load", "store", "gemm", "vector")):
                assert await harness.get(ctx, register + "_busy") == engine.busy_cycles
            assert harness.abort_cycles == 0

    harness.run(bench)


def test_an_empty_program_is_done_at_once():
    harness = Harness(TINY)

    async def bench(ctx):
        await harness.start(ctx, ADDR, 0)
        assert await harness.until_irq(ctx, 40) == DONE
        assert not harness.bursts
        assert await harness.get(ctx, "cycles") < 20

    harness.run(bench)


def with_bit(command, bit):
    return (int.from_bytes(command, "little") ^ 1 << bit).to_bytes(64, "little")


def illegal_commands():
    rng = random.Random(8)
    print("seed 8")
    for opcode in Opcode:
        reserved = [bit for bit in range(8, 512) if reserved_mask(opcode) >> bit & 1]
        yield from (with_bit(encode(opcode), bit) for bit in rng.sample(reserved, 2))
    yield from (bytes([code]) + bytes(63) for code in (0x00, 0x02, 0x11, 0x2E, 0x46, 0x50, 0xFF))
    for name in ("wait0", "wait1", "post0", "post1"):
        yield encode(Opcode.GEMM, **{name: 1 << 15 | 3 << 8})
        yield encode(Opcode.LOAD, **{name: semaphore(NARROW.semaphores)})


def test_illegal_commands_are_refused_after_what_was_before_them():
    """Each in turn, with a clear between; then a good program."""
    harness = Harness(NARROW, seed=5, work=(0, 3), latency=(1, 3))

    async def bench(ctx):
        for command in illegal_commands():
            harness.load_program([encode(Opcode.LOAD), encode(Opcode.SOFTMAX), command], ADDR)
            await harness.start(ctx, ADDR, 3)
            assert await harness.until_irq(ctx) == ERROR, command.hex()
            assert await harness.error(ctx) == (FaultReason.ILLEGAL_COMMAND, 2, 0), command.hex()
            await harness.set(ctx, "control", 2)
            assert await harness.get(ctx, "status") == 0
        # The fields of a disabled semaphore are free.
        harness.load_program([encode(Opcode.LOAD, wait0=31 << 8)], ADDR)
        await harness.start(ctx, ADDR, 1)
        assert await harness.until_irq(ctx) == DONE

    harness.run(bench, 60_000)


PLACES = [
    (0x1F84, 4, (FaultReason.MISALIGNED, 0, 0)),
    (0x0F80, 4, (FaultReason.DRAM_WINDOW, 0, 0)),
    (0x4F80, 4, (FaultReason.DRAM_WINDOW, 2, 0)),
    (0x1_0000_1F80, 4, (FaultReason.DRAM_WINDOW, 0, 0)),
]


@pytest.mark.parametrize("addr, length, error", PLACES)
@pytest.mark.parametrize("name", ["edge8", "narrow"])
def test_programs_must_be_aligned_and_in_the_window(name, addr, length, error):
    harness = Harness(CONFIGS[name])

    async def bench(ctx):
        harness.load_program([encode(Opcode.LOAD)] * 2, 0x4F80)
        await harness.start(ctx, addr, length)
        assert await harness.until_irq(ctx) == ERROR
        assert await harness.error(ctx) == error
        assert len(harness.engines[0].log) <= error[1]

    harness.run(bench)


def test_a_window_beyond_the_address_space():
    """A base above 32 bits leaves nothing; a limit above them is the end of the address space."""
    for window, status in (((0x1_0000_0000, 0x1_8000_0000), ERROR), ((0, 0x2_0000_0000), DONE)):
        harness = Harness(EDGE)
        harness.window = window

        async def bench(ctx, harness=harness, status=status):
            harness.load_program([encode(Opcode.LOAD)], ADDR)
            await harness.start(ctx, ADDR, 1)
            assert await harness.until_irq(ctx) == status

        harness.run(bench)


@pytest.mark.parametrize("response, reason", [(2, FaultReason.AXI_SLVERR), (3, FaultReason.AXI_DECERR)])
def test_a_bad_response_names_the_command_and_clear_makes_ready(response, reason):
    harness = Harness(EDGE, latency=(150, 150))
    program = [encode(Opcode.LOAD)] * 12
    harness.load_program(program, ADDR)

    async def bench(ctx):
        harness.errors[ADDR + 5 * 64 + 24] = response
        await harness.start(ctx, ADDR, len(program))
        assert await harness.until_irq(ctx) == ERROR
        assert await harness.error(ctx) == (reason, 5, 0)
        assert harness.abort_cycles >= 32 and not ctx.get(harness.dut.abort)
        # The doorbell is deaf until the error is cleared.
        harness.errors.clear()
        harness.engines[0].log.clear()
        bursts = len(harness.bursts)
        await harness.set(ctx, "control", 1)
        await ctx.tick().repeat(60)
        assert await harness.get(ctx, "status") == ERROR and len(harness.bursts) == bursts
        await harness.set(ctx, "control", 2)
        assert await harness.error(ctx) == (0, 0, 0)
        await harness.set(ctx, "control", 1)
        assert await harness.until_irq(ctx) == DONE
        assert harness.engines[0].log == list(range(12))

    harness.run(bench)


@pytest.mark.parametrize("engine", range(ENGINES))
def test_engine_faults(engine):
    harness = Harness(TINY, seed=engine, work=(0, 5))
    opcodes = [Opcode.LOAD, Opcode.STORE, Opcode.GEMM, Opcode.TABLE]
    harness.load_program([encode(op) for op in opcodes * 3], ADDR)
    harness.engines[engine].fault_at = 4 + engine
    harness.engines[engine].fault = FaultReason.SCRATCHPAD_RANGE

    async def bench(ctx):
        await harness.start(ctx, ADDR, 12)
        assert await harness.until_irq(ctx) == ERROR
        assert await harness.error(ctx) == (FaultReason.SCRATCHPAD_RANGE, 4 + engine, engine + 1)

    harness.run(bench)


def test_deadlock_is_found_and_named():
    harness = Harness(TINY, work=(3, 3))
    program = [
        encode(Opcode.LOAD, post0=semaphore(1, 4)),
        encode(Opcode.GEMM, wait0=semaphore(1, 3), wait1=semaphore(2)),
        encode(Opcode.STORE, wait0=semaphore(3, 2)),
        encode(Opcode.SOFTMAX),
    ]
    harness.load_program(program, ADDR)

    async def bench(ctx):
        await harness.start(ctx, ADDR, len(program))
        assert await harness.until_irq(ctx) == ERROR
        assert await harness.error(ctx) == (FaultReason.DEADLOCK, 1, 3)
        assert 256 < await harness.get(ctx, "cycles") < 500
        # Leftover units are gone: the next program finds nothing of semaphore 1.
        await harness.set(ctx, "control", 2)
        harness.load_program([encode(Opcode.GEMM_WAIT, wait0=semaphore(1))], ADDR)
        await harness.start(ctx, ADDR, 1)
        assert await harness.until_irq(ctx) == ERROR
        assert await harness.error(ctx) == (FaultReason.DEADLOCK, 0, 3)

    harness.run(bench)


def test_slow_memory_and_slow_engines_are_no_deadlock():
    harness = Harness(TINY, latency=(700, 700), work=(600, 600))
    program = [encode(Opcode.GEMM, wait0=semaphore(1))]
    program = [encode(Opcode.LOAD, post0=semaphore(1)), *program]
    harness.load_program(program, ADDR)

    async def bench(ctx):
        await harness.start(ctx, ADDR, 2)
        assert await harness.until_irq(ctx) == DONE

    harness.run(bench)


def test_units_may_come_from_a_command_that_is_still_fetched():
    """No legal program, but one that goes on: a wait's units follow later than a deadlock would take."""
    harness = Harness(EDGE, latency=(400, 400), work=(0, 0))
    program = [encode(Opcode.GEMM, wait0=semaphore(1)), *[encode(Opcode.TABLE)] * 5]
    program.append(encode(Opcode.LOAD, post0=semaphore(1)))
    harness.load_program(program, ADDR)

    async def bench(ctx):
        await harness.start(ctx, ADDR, len(program))
        assert await harness.until_irq(ctx) == DONE

    harness.run(bench)


def test_semaphore_overflow():
    harness = Harness(TINY, work=(1, 1))
    program = [encode(Opcode.STORE), encode(Opcode.VECTOR_WAIT)]
    program += [encode(Opcode.TABLE, post1=semaphore(5, 200))] * 2
    harness.load_program(program, ADDR)

    async def bench(ctx):
        await harness.start(ctx, ADDR, 4)
        assert await harness.until_irq(ctx) == ERROR
        assert await harness.error(ctx) == (FaultReason.SEMAPHORE_OVERFLOW, 3, 4)

    harness.run(bench)


def test_doorbell_while_busy_is_ignored_and_clears_done():
    harness = Harness(TINY, work=(60, 60))
    harness.load_program([encode(Opcode.LOAD)] * 3, ADDR)

    async def bench(ctx):
        await harness.start(ctx, ADDR, 3)
        await ctx.tick().repeat(70)
        await harness.set(ctx, "control", 1)
        await harness.set(ctx, "control", 2)
        assert await harness.until_irq(ctx) == DONE
        assert harness.engines[0].log == [0, 1, 2]
        await harness.set(ctx, "irq_enable", 0)
        await harness.set(ctx, "control", 1)
        assert await harness.get(ctx, "status") == BUSY
        await ctx.tick().repeat(400)
        assert await harness.get(ctx, "status") == DONE
        # Pending, but not enabled.
        assert await harness.get(ctx, "irq_status") == 1 and not ctx.get(harness.dut.irq)
        await harness.set(ctx, "irq_enable", 1)
        await ctx.tick().repeat(2)
        assert ctx.get(harness.dut.irq)

    harness.run(bench)


@pytest.mark.parametrize("name", ["tiny4", "edge8"])
def test_registers(name):
    config = CONFIGS[name]
    harness = Harness(config)
    constants = {
        "identity": IDENTITY,
        "version": VERSION,
        "array_n": config.array_n,
        "scratchpad_bytes": config.scratchpad_bytes,
        "axi": 64 << 16 | 32,
        "limits": config.row_slots << 16 | 32 << 8 | 8,
        "cycle_counters": config.cycle_counters,
    }
    if config is EDGE:
        constants["axi"] = EDGE.axi_data_bits << 16 | 32

    async def bench(ctx):
        rng = random.Random(1)
        model = dict.fromkeys(range(0, 256, 4), 0)
        model.update({offset_of(register): value for register, value in constants.items()})
        writable = {r.offset for r in registers_of(config) if r.access is Access.READ_WRITE}
        acting = {r.offset for r in REGISTERS if r.access is Access.WRITE_ONE}
        for _ in range(150):
            offset = rng.choice([o for o in model if o not in acting])
            if rng.random() < 0.5:
                value, strobes = rng.getrandbits(32), rng.getrandbits(4)
                await harness.write(ctx, offset, value, strobes)
                if offset in writable:
                    mask = sum(255 << 8 * n for n in range(4) if strobes >> n & 1)
                    model[offset] = (model[offset] & ~mask) | (value & mask)
            else:
                assert await harness.read(ctx, offset) == model[offset], hex(offset)
        # Two writes whose responses are not taken at first.
        bus = harness.dut.s_axil
        ctx.set(bus.awvalid, 1)
        ctx.set(bus.wvalid, 1)
        ctx.set(bus.wstrb, 15)
        for number, offset in enumerate((offset_of("program_length"), offset_of("window_base"))):
            ctx.set(bus.awaddr, offset)
            ctx.set(bus.wdata, 70 + number)
            await ctx.tick().until(bus.awready & bus.wready)
        ctx.set(bus.awvalid, 0)
        ctx.set(bus.wvalid, 0)
        await ctx.tick().repeat(5)
        ctx.set(bus.bready, 1)
        for _ in range(2):
            await ctx.tick().until(bus.bvalid)
        ctx.set(bus.bready, 0)
        assert await harness.get(ctx, "program_length") == 70
        assert await harness.get(ctx, "window_base") == 71
        # A strobe that is clear rings no doorbell.
        await harness.write(ctx, offset_of("control"), 1, 0b1110)
        assert await harness.get(ctx, "status") == 0

    harness.run(bench)
