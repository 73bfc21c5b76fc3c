"""DEADLOCK against a model of which commands can go on."""

import random

import pytest

from bertha.rtl.config import PRESETS
from bertha.rtl.isa import Engine, FaultReason, Opcode, encode, semaphore
from tests.rtl.control.harness import KINDS, Harness, units_of

TINY = PRESETS["tiny4"]
ADDR = 0x2000
DONE, ERROR = 2, 4
OPCODES = [Opcode.LOAD, Opcode.STORE, Opcode.GEMM, Opcode.TABLE]
OPCODES += [Opcode.LOAD_WAIT, Opcode.STORE_WAIT, Opcode.GEMM_WAIT, Opcode.VECTOR_WAIT]


def outcome(program, depth):
    """(index, engine) of the command that DEADLOCK must name, or None for a program that ends.

    Commands are dispatched in order into queues of `depth`; a queue's head takes its waits one after the
    other and then leaves, with its posts.
    """
    queues = {kind: [] for kind in KINDS}
    units = [0] * 32
    dispatched, moved = 0, True
    while moved:
        moved = False
        while dispatched < len(program):
            opcode, fields = program[dispatched]
            if opcode is Opcode.BARRIER:
                if any(queues.values()):
                    break
            else:
                if len(queues[opcode.engine]) == depth:
                    break
                waits = [units_of(fields[name]) for name in ("wait0", "wait1") if name in fields]
                queues[opcode.engine].append((dispatched, waits))
            dispatched, moved = dispatched + 1, True
        for queue in queues.values():
            while queue:
                index, waits = queue[0]
                if not waits:
                    fields = program[index][1]
                    for name in ("post0", "post1"):
                        if name in fields:
                            units[units_of(fields[name])[0]] += units_of(fields[name])[1]
                    queue.pop(0)
                elif units[waits[0][0]] >= waits[0][1]:
                    units[waits[0][0]] -= waits[0][1]
                    waits.pop(0)
                else:
                    break
                moved = True
    return min(((queue[0][0], kind) for kind, queue in queues.items() if queue), default=None)


def random_program(rng, length):
    """Commands with random waits and posts; each semaphore is waited for by one engine."""
    program = []
    for _ in range(length):
        if rng.random() < 0.05:
            program.append((Opcode.BARRIER, {}))
            continue
        opcode = rng.choice(OPCODES)
        mine = KINDS.index(opcode.engine)
        fields = {}
        for name in ("wait0", "wait1"):
            if rng.random() < 0.35:
                fields[name] = semaphore(mine + 4 * rng.randrange(2), rng.randint(1, 2))
        if opcode.name[-4:] != "WAIT":
            for name in ("post0", "post1"):
                if rng.random() < 0.8:
                    fields[name] = semaphore(rng.randrange(8), rng.randint(1, 3))
        program.append((opcode, fields))
    return program


async def run(ctx, harness, program):
    """None after an end, else the error."""
    harness.load_program([encode(opcode, **fields) for opcode, fields in program], ADDR)
    await harness.start(ctx, ADDR, len(program))
    status = await harness.until_irq(ctx)
    if status == DONE:
        return None
    assert status == ERROR
    error = await harness.error(ctx)
    await harness.set(ctx, "control", 2)
    return error


@pytest.mark.parametrize("depth", [2, 8])
def test_random_programs_stop_where_the_model_does(depth):
    seed = 40 + depth
    rng = random.Random(seed)
    harness = Harness(TINY.replace(queue_depth=depth), seed=seed, work=(0, 9), latency=(1, 4))
    found = []

    async def bench(ctx):
        for _ in range(14):
            program = random_program(rng, rng.choice([1, 3, 8, 20, 30]))
            expected = outcome(program, depth)
            error = await run(ctx, harness, program)
            assert error == (expected and (FaultReason.DEADLOCK, *expected)), program
            found.append(expected)

    harness.run(bench, 60_000)
    assert None in found and len({engine for _, engine in filter(None, found)}) > 1, found


NEVER = {"wait0": semaphore(9)}


@pytest.mark.parametrize(
    "program, expected",
    [
        ([(Opcode.TABLE, {}), (Opcode.STORE_WAIT, NEVER), (Opcode.VECTOR_WAIT, NEVER)], (1, Engine.STORE)),
        ([(Opcode.VECTOR_WAIT, NEVER)], (0, Engine.VECTOR)),
        ([(Opcode.TABLE, {}), (Opcode.GEMM, NEVER), (Opcode.TABLE, NEVER)], (1, Engine.GEMM)),
        ([(Opcode.LOAD, {}), (Opcode.BARRIER, {}), (Opcode.LOAD, NEVER)], (2, Engine.LOAD)),
    ],
)
def test_the_oldest_command_that_waits_is_named(program, expected):
    """Also after a program that was longer."""
    harness = Harness(TINY, work=(0, 3), latency=(1, 4))

    async def bench(ctx):
        assert await run(ctx, harness, [(Opcode.TABLE, {}), (Opcode.STORE, {})] * 8) is None
        assert await run(ctx, harness, program) == (FaultReason.DEADLOCK, *expected)

    harness.run(bench)
