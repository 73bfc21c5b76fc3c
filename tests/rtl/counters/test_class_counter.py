"""ClassCounter against a dictionary: any order of events, snapshots and clears."""

import random
from collections import Counter

import pytest
from amaranth.sim import Simulator

from bertha.rtl.counters.class_counter import ClassCounter
from tests.rtl.streams import run


@pytest.mark.parametrize("depth, seed", [(16, 1), (16, 2), (64, 3)])
def test_snapshots_hold_what_was_counted_until_then(depth, seed):
    dut = ClassCounter(depth)
    rng = random.Random(seed)
    print("seed", seed)

    async def bench(ctx):
        counts, kept = Counter(), Counter()
        numbers = rng.sample(range(depth), 5) + [rng.randrange(depth)]
        selected = None
        for cycle in range(4000):
            enable, number = rng.random() < 0.8, rng.choice(numbers)
            snapshot, clear = rng.random() < 0.01, rng.random() < 0.002
            ctx.set(dut.enable, enable)
            ctx.set(dut.number, number)
            ctx.set(dut.snapshot, snapshot)
            ctx.set(dut.clear, clear)
            # What is read is the snapshot as it is before this cycle.
            select = rng.choice([*numbers, rng.randrange(depth)])
            ctx.set(dut.select, select)
            selected = kept[select]
            await ctx.tick()
            assert ctx.get(dut.count) == selected, (cycle, select)
            if enable:
                counts[number] += 1
            if snapshot:
                kept = counts.copy()
            if clear:
                counts, kept = Counter(), Counter()
        assert sum(counts.values()) or sum(kept.values())

    run(dut, bench)


def test_nothing_has_been_counted_before_the_first_event():
    """Memories start with anything: what was never counted reads zero, whatever they hold."""
    dut = ClassCounter(16)

    async def bench(ctx):
        for select in range(16):
            ctx.set(dut.select, select)
            await ctx.tick()
            assert ctx.get(dut.count) == 0

    run(dut, bench)


def test_counts_wrap():
    """At 32 bits: seen on the memory's own contents, since nobody counts so far."""
    dut = ClassCounter(16)
    module = dut.elaborate(None)
    counts = module.submodules.counts
    dut.elaborate = lambda platform: module

    async def bench(ctx):
        ctx.set(dut.number, 3)
        ctx.set(dut.select, 3)
        ctx.set(dut.enable, 1)
        await ctx.tick()
        ctx.set(counts.data[3], (1 << 32) - 1)
        await ctx.tick()
        ctx.set(dut.enable, 0)
        ctx.set(dut.snapshot, 1)
        await ctx.tick()
        ctx.set(dut.snapshot, 0)
        await ctx.tick().repeat(2)
        assert ctx.get(dut.count) == 0
        ctx.set(dut.enable, 1)
        ctx.set(dut.snapshot, 1)
        await ctx.tick()
        ctx.set(dut.enable, 0)
        await ctx.tick().repeat(2)
        assert ctx.get(dut.count) == 1

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
