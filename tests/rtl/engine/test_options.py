"""Every combination of waits and posts on the engines that take them once a command (GEMM's: test_options there)."""

import itertools
import random

import pytest
from amaranth.sim import Simulator

from bertha.rtl.config import PRESETS
from bertha.rtl.isa import Opcode, semaphore
from tests.rtl.dma.harness import Harness, transfer
from tests.rtl.vector.bench import Bench

TINY = PRESETS["tiny4"]
NAMES = ("wait0", "wait1", "post0", "post1")
WORK = [Opcode.SOFTMAX, Opcode.LAYERNORM, Opcode.QUANTIZE, Opcode.FACTORS, Opcode.TABLE]


def combinations(seed, opcode, wait_only):
    """(opcode, fields) of commands with every choice of fields, in random order; units differ by field.

    Also `wait_only` commands, which post nothing.
    """
    rng = random.Random(seed)
    print("seed", seed)
    chosen = [(opcode, choice) for choice in itertools.product((0, 1), repeat=4)]
    chosen += [(wait_only, (*choice, 0, 0)) for choice in itertools.product((0, 1), repeat=2)]
    rng.shuffle(chosen)
    return [
        (
            code,
            {
                name: semaphore(number, rng.randint(1, 20))
                for number, name in enumerate(NAMES)
                if choice[number]
            },
        )
        for code, choice in chosen
    ]


def units(program, *names):
    """What the fields of these names want or give, in order."""
    return [
        (fields[name] >> 8 & 31, fields[name] & 255)
        for _, fields in program
        for name in names
        if name in fields
    ]


@pytest.mark.parametrize(
    "opcode, wait_only", [(Opcode.LOAD, Opcode.LOAD_WAIT), (Opcode.STORE, Opcode.STORE_WAIT)]
)
def test_dma(opcode, wait_only):
    engine = opcode.engine - 1
    program = combinations(3, opcode, wait_only)
    harness = Harness(TINY, seed=4)
    rng = random.Random(6)
    size = TINY.line_bytes
    delay = [0]

    def grant(*_):
        # A wait is granted after some cycles in which its command's burst must not be on the bus.
        delay[0] = delay[0] - 1 if delay[0] else rng.randrange(10)
        if delay[0] == 0:
            counts.append((len(harness.taken), len(harness.memory.bursts)))
        return delay[0] == 0

    counts = []
    harness.grant = grant

    async def bench(ctx):
        for index, (code, fields) in enumerate(program):
            place = (
                {} if code is wait_only else {"lines": 1, "dram_addr": size * index, "scratchpad_addr": index}
            )
            body = transfer(code, **place, **fields) if place else int(code)
            if not place:
                body |= sum(fields[name] << 384 + 16 * NAMES.index(name) for name in fields)
            harness.give(engine, index, body)
        await harness.until_idle(ctx)
        assert harness.taken == [(engine, *unit) for unit in units(program, "wait0", "wait1")]
        posts = [post[1:3] for post in harness.posts]
        assert posts == units(program, "post0", "post1")
        # The bursts that were out when a wait was granted belong to commands before that one.
        owner = [index for index, (_, f) in enumerate(program) for name in ("wait0", "wait1") if name in f]
        for taken, bursts in counts:
            if taken < len(owner):
                assert bursts <= sum(code is not wait_only for code, _ in program[: owner[taken]])
        assert not harness.faults

    simulator = Simulator(harness.dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    for background in harness.benches:
        simulator.add_testbench(background, background=True)
    simulator.run()


@pytest.mark.parametrize("opcode", WORK, ids=lambda opcode: opcode.name)
def test_vector(opcode):
    """The units are there from the beginning; what is left at the end tells what was taken and posted."""
    program = combinations(7, opcode, Opcode.VECTOR_WAIT)
    bench = Bench(TINY, pattern="often", seed=8)
    # A line for each; the semaphores' order is in `events`.
    taken = []

    class Units(dict):
        def __setitem__(self, number, value):
            if value < self.get(number, 0):
                taken.append((number, self[number] - value, bench.reads))
            super().__setitem__(number, value)

    bench.semaphores = Units({0: 100_000, 1: 100_000})
    bench.allocate(64)
    for code, fields in program:
        work = {"words": 2} if code in WORK[:3] else {}
        bench.command(code, **work, **({"post1": 0} | fields if code is opcode else fields))
    bench.run()
    assert [unit[:2] for unit in taken] == units(program, "wait0", "wait1")
    posts = [event for _, event in bench.events if event.startswith("posted")]
    assert posts == [f"posted {number}" for number, _ in units(program, "post0", "post1")]
    given = units(program, "post0", "post1")
    for number in (2, 3):
        assert bench.semaphores.get(number, 0) == sum(amount for n, amount in given if n == number)
    # Nothing of a command is read before its waits are taken.
    reads = bench.reads // sum(code is opcode for code, _ in program)
    owner = [index for index, (_, f) in enumerate(program) for name in ("wait0", "wait1") if name in f]
    for index, (_, _, seen) in zip(owner, taken):
        assert seen <= reads * sum(code is opcode for code, _ in program[:index])
