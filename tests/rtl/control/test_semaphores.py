"""Semaphores against a count of units."""

import random

import pytest

from bertha.rtl.config import PRESETS
from bertha.rtl.control.semaphores import Semaphores
from bertha.rtl.isa import FaultReason
from tests.rtl.streams import PATTERNS, Pace, run


def make(semaphores=4):
    return Semaphores(PRESETS["tiny4"].replace(semaphores=semaphores), waiters=3, posters=3)


@pytest.mark.parametrize("posts", PATTERNS)
def test_no_unit_is_lost_or_granted_twice(posts):
    """Three posters and three waiters on shared counters; every grant must be covered by posts."""
    dut = make()
    rng = random.Random(11)
    print("seed 11")
    posted = [(rng.randrange(4), rng.randrange(1, 9)) for _ in range(240)]
    # The waiters take exactly what is posted, in other portions.
    wanted = [[] for _ in range(3)]
    for semaphore in range(4):
        left = sum(amount for number, amount in posted if number == semaphore)
        while left:
            amount = min(left, rng.randrange(1, 9))
            wanted[semaphore % 3].append((semaphore, amount))
            left -= amount
    rng.shuffle(wanted[0])
    offered, taken = [0] * 4, [0] * 4
    done = []

    def posting(number):
        async def bench(ctx):
            pace = Pace(posts, number)
            for semaphore, amount in posted[number::3]:
                # Keeps below the overflow, as a legal program does.
                while not pace.willing() or offered[semaphore] - taken[semaphore] + amount > 255:
                    await ctx.tick()
                offered[semaphore] += amount
                ctx.set(dut.post[number].payload, {"semaphore": semaphore, "amount": amount})
                ctx.set(dut.post[number].valid, 1)
                await ctx.tick().until(dut.post[number].ready)
                ctx.set(dut.post[number].valid, 0)

        return bench

    def waiting(number):
        async def bench(ctx):
            for semaphore, amount in wanted[number]:
                ctx.set(dut.wait[number].payload, {"semaphore": semaphore, "amount": amount})
                ctx.set(dut.wait[number].valid, 1)
                await ctx.tick().until(dut.wait[number].ready)
                ctx.set(dut.wait[number].valid, 0)
                taken[semaphore] += amount
                assert taken[semaphore] <= offered[semaphore]
            done.append(number)
            while len(done) < 3:
                await ctx.tick()
            assert taken == offered
            assert ctx.get(dut.idle) and not ctx.get(dut.fault_valid)

        return bench

    run(dut, *(posting(n) for n in range(3)), *(waiting(n) for n in range(3)))


async def post(ctx, dut, semaphore, amount, port=1):
    ctx.set(dut.post[port].payload, {"semaphore": semaphore, "amount": amount})
    ctx.set(dut.post[port].valid, 1)
    await ctx.tick().until(dut.post[port].ready)
    ctx.set(dut.post[port].valid, 0)


async def granted(ctx, dut, semaphore, amount, port=0, cycles=20):
    ctx.set(dut.wait[port].payload, {"semaphore": semaphore, "amount": amount})
    ctx.set(dut.wait[port].valid, 1)
    for _ in range(cycles):
        _, _, ready = await ctx.tick().sample(dut.wait[port].ready)
        if ready:
            break
    ctx.set(dut.wait[port].valid, 0)
    await ctx.tick()
    return bool(ready)


def test_counts_are_exact_at_the_limits():
    dut = make()

    async def bench(ctx):
        await ctx.tick().repeat(8)
        assert not await granted(ctx, dut, 3, 1)
        await post(ctx, dut, 3, 255)
        assert not await granted(ctx, dut, 2, 1)
        assert await granted(ctx, dut, 3, 255)
        assert not await granted(ctx, dut, 3, 1)
        await post(ctx, dut, 3, 4)
        assert not await granted(ctx, dut, 3, 5)
        assert await granted(ctx, dut, 3, 3, port=2)
        assert await granted(ctx, dut, 3, 1, port=1)
        assert not await granted(ctx, dut, 3, 1)
        # A grant is given once.
        await post(ctx, dut, 0, 9)
        assert await granted(ctx, dut, 0, 3)
        await ctx.tick().repeat(4)
        assert await granted(ctx, dut, 0, 6)
        assert not await granted(ctx, dut, 0, 1)

    run(dut, bench)


@pytest.mark.parametrize(
    "first, second, reason",
    [((1, 255), (1, 1), FaultReason.SEMAPHORE_OVERFLOW), ((1, 1), (4, 1), FaultReason.ILLEGAL_COMMAND)],
)
def test_faults_name_reason_and_port(first, second, reason):
    dut = make()

    async def bench(ctx):
        await ctx.tick().repeat(8)
        await post(ctx, dut, *first)
        for _ in range(4):
            await ctx.tick()
            assert not ctx.get(dut.fault_valid)
        await post(ctx, dut, *second)
        await ctx.tick().until(dut.fault_valid)
        assert ctx.get(dut.fault_reason) == reason
        assert ctx.get(dut.fault_port) == 1
        assert await granted(ctx, dut, *first)

    run(dut, bench, timeout=100)


def test_a_wait_for_no_semaphore_faults():
    dut = make()

    async def bench(ctx):
        ctx.set(dut.wait[2].payload, {"semaphore": 9, "amount": 1})
        ctx.set(dut.wait[2].valid, 1)
        await ctx.tick().until(dut.fault_valid)
        assert ctx.get(dut.fault_reason) == FaultReason.ILLEGAL_COMMAND
        assert ctx.get(dut.fault_port) == 2

    run(dut, bench, timeout=100)
