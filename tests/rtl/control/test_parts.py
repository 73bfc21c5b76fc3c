"""FirstFault and Watchdog by themselves."""

import random

import pytest

from bertha.rtl.control.first_fault import FirstFault
from bertha.rtl.control.watchdog import Watchdog
from bertha.rtl.isa import FaultReason
from tests.rtl.streams import run


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
                    {"fault": {"reason": FaultReason.MISALIGNED, "index": index}, "engine": engine},
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
    "idle, blocked, progress, stuck",
    [
        ("1111", "0100", 0, True),
        ("1011", "0100", 0, True),
        ("1001", "0110", 0, True),
        ("1101", "0100", 0, False),
        ("1111", "0000", 0, False),
        ("1011", "0100", 1, False),
    ],
)
def test_watchdog(idle, blocked, progress, stuck):
    """Strings are one digit an engine; somebody must wait, and nobody be at work."""
    dut = Watchdog(4)

    async def bench(ctx):
        for number in range(4):
            ctx.set(dut.idle[number], int(idle[number]))
            ctx.set(dut.blocked[number], int(blocked[number]))
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
            assert fired == [(255, [n for n in range(4) if blocked[n] == "1"])]
        else:
            assert not fired

    run(dut, bench)
