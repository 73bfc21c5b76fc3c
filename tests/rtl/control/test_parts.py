"""CommandQueue, FirstFault and Watchdog by themselves."""

import random

import pytest

from bertha.rtl.config import PRESETS
from bertha.rtl.control.command_queue import CommandQueue
from bertha.rtl.control.first_fault import FirstFault
from bertha.rtl.control.sequencer import ENGINES
from bertha.rtl.control.watchdog import Watchdog
from bertha.rtl.isa import COMMAND_BITS, FaultReason, Opcode, reserved_mask
from tests.rtl.streams import PATTERNS, Pace, collect, feed, run


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_bit_of_a_legal_command_survives_its_queue(engine, pattern):
    rng = random.Random(2)
    print("seed 2")
    mine = [opcode for opcode in Opcode if opcode.engine == engine]
    commands = []
    for index in range(30):
        opcode = mine[index % len(mine)]
        body = rng.getrandbits(COMMAND_BITS) & ~reserved_mask(opcode) & ~0xFF | opcode
        commands.append((rng.getrandbits(24), body))
    dut = CommandQueue(PRESETS["tiny4"], engine)

    async def feeding(ctx):
        await feed(ctx, dut.i, [{"index": i, "body": b} for i, b in commands], Pace(pattern, 1))

    async def collecting(ctx):
        got = await collect(ctx, dut.o, len(commands), Pace("often", 2))
        assert [(c.index, c.body) for c in got] == commands
        await ctx.tick()
        assert not ctx.get(dut.o.valid)

    run(dut, feeding, collecting)


@pytest.mark.parametrize("count", [2, 5, 7])
def test_first_fault_is_the_lowest_index_of_its_cycle(count):
    rng = random.Random(6)
    print("seed 6")
    dut = FirstFault(count)

    async def bench(ctx):
        expected = []
        for cycle in range(60):
            faults = [(rng.random() < 0.4, rng.randrange(4), rng.randrange(5)) for _ in range(count)]
            for number, (valid, index, engine) in enumerate(faults):
                ctx.set(dut.valid[number], valid)
                ctx.set(
                    dut.source[number],
                    {
                        "fault": {"reason": FaultReason.MISALIGNED, "index": index},
                        "engine": engine,
                    },
                )
            found = [(index, number, engine) for number, (valid, index, engine) in enumerate(faults) if valid]
            expected.append(min(found) if found else None)
            if cycle >= dut.latency:
                _check(ctx, dut, expected[cycle - dut.latency])
            await ctx.tick()

    def _check(ctx, dut, expected):
        assert ctx.get(dut.first_valid) == (expected is not None)
        if expected:
            first = ctx.get(dut.first)
            assert (first.fault.index, first.engine) == (expected[0], expected[2])

    run(dut, bench)


@pytest.mark.parametrize(
    "idle, waiting, active, progress, stuck",
    [
        ("1111", "0100", "0000", 0, True),
        ("1011", "0100", "0000", 0, True),
        ("1001", "0110", "0000", 0, True),
        ("1011", "0100", "0100", 0, False),
        ("1101", "0100", "0000", 0, False),
        ("1111", "0000", "0000", 0, False),
        ("1111", "0100", "0000", 1, False),
    ],
)
def test_watchdog(idle, waiting, active, progress, stuck):
    """Strings are one digit an engine; what isn't idle and waits is stuck unless it is active."""
    dut = Watchdog()

    async def bench(ctx):
        for number in range(len(ENGINES)):
            ctx.set(dut.idle[number], int(idle[number]))
            ctx.set(dut.waiting[number], int(waiting[number]))
            ctx.set(dut.active[number], int(active[number]))
            ctx.set(dut.index[number], 50 + number)
        ctx.set(dut.progress, progress)
        await ctx.tick().repeat(20)
        ctx.set(dut.running, 1)
        fired = []
        for cycle in range(300):
            await ctx.tick()
            faults = [number for number, fault in enumerate(dut.fault) if ctx.get(fault.valid)]
            if faults:
                fired.append((cycle, faults))
                for number in faults:
                    assert ctx.get(dut.fault[number].payload.reason) == FaultReason.DEADLOCK
                    assert ctx.get(dut.fault[number].payload.index) == 50 + number
        if stuck:
            assert fired == [(255, [n for n in range(4) if waiting[n] == "1"])]
        else:
            assert not fired

    run(dut, bench)
