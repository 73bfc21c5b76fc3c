"""Answers that are given up: they may come at any time later, or never, and reach no later command."""

import random

import pytest

from bertha.rtl.config import PRESETS
from bertha.rtl.isa import Opcode, semaphore
from tests.rtl.dma.harness import LOAD, STORE, Harness, simulate, transfer

TINY = PRESETS["tiny4"].replace(axi_data_bits=32, outstanding_bursts=2)


async def give_up(ctx, harness, epoch):
    """An abort, in whose last cycle the answers are given up, as the supervisor does it."""
    dut = harness.dut
    dut.set_all(ctx, "abort", 1)
    harness.reset_models()
    await ctx.tick().repeat(200)
    working = [ctx.get(signal) for signal in dut.working]
    dut.set_all(ctx, "abandon", 1)
    await ctx.tick()
    dut.set_all(ctx, "abandon", 0)
    dut.set_all(ctx, "abort", 0)
    dut.set_epoch(ctx, epoch)
    await ctx.tick().repeat(3)
    return working


def commands(opcode, number, count=3, lines=40):
    """Transfers of their own places in DRAM and scratchpad."""
    for part in range(count):
        place = 500 * number + 100 * part
        yield transfer(
            opcode,
            lines=lines,
            dram_addr=(0x8000 if opcode is Opcode.STORE else 0) + place * TINY.line_bytes,
            scratchpad_addr=(2000 if opcode is Opcode.STORE else 0) + place,
            post1=semaphore(part),
        )


@pytest.mark.parametrize("pattern", ["always", "rarely"])
@pytest.mark.parametrize("late", [40, 150, 400])
def test_late_answers_are_dropped(pattern, late):
    """Three times in a row; the old answers come before, among and after the new ones."""
    harness = Harness(TINY, pattern=pattern, seed=late)
    memory = harness.memory
    rng = random.Random(late)

    async def bench(ctx):
        for epoch in range(1, 4):
            lines, posts = list(harness.lines), len(harness.posts)
            memory.latency = (300 + late, 300 + 2 * late)
            for opcode in (Opcode.LOAD, Opcode.STORE):
                for body in commands(opcode, 0):
                    harness.give(opcode.engine - 1, 0, body)
            await ctx.tick().repeat(rng.randrange(60, 200))
            assert await give_up(ctx, harness, epoch) == [1, 1]
            assert harness.lines == lines and len(harness.posts) == posts
            memory.latency = (1, 30)
            for opcode in (Opcode.LOAD, Opcode.STORE):
                for body in commands(opcode, epoch):
                    harness.give(opcode.engine - 1, epoch, body)
            await harness.until_idle(ctx)
            posts = sorted(harness.posts[posts:])
            assert [post[:3] for post in posts] == [(e, n, 1) for e in (LOAD, STORE) for n in range(3)]
            for part in range(3):
                place = 500 * epoch + 100 * part
                size = TINY.line_bytes
                assert harness.lines[place : place + 40] == harness.dram(place * size, 40)
                assert harness.dram(0x8000 + place * size, 40) == lines[2000 + place : 2040 + place]
            assert not harness.faults
            assert memory.quiet

    simulate(harness, bench, 30_000)


@pytest.mark.parametrize("channel", ["r", "b", "ar", "aw", "w"])
def test_a_channel_that_stands_still_for_ever(channel):
    """Reads go on with other IDs, and stores as far as the bus takes them; nothing old is mixed in."""
    harness = Harness(TINY, pattern="always")
    memory, dut = harness.memory, harness.dut
    stuck = [True]
    pace = memory._pace[channel]
    willing = pace.willing
    pace.willing = lambda: not stuck[0] and willing()
    size = TINY.line_bytes

    async def bench(ctx):
        before = harness.dram(0x8000, 100)
        for opcode in (Opcode.LOAD, Opcode.STORE):
            for body in commands(opcode, 0):
                harness.give(opcode.engine - 1, 0, body)
        await ctx.tick().repeat(200)
        working = await give_up(ctx, harness, 1)
        assert working == ([1, 0] if channel in ("r", "ar") else [0, 1])
        if channel in ("aw", "w"):
            # Loads aren't held up; the idle engine's border says that nothing is to be done.
            harness.give(LOAD, 9, next(commands(Opcode.LOAD, 1)))
            await ctx.tick().repeat(200)
            assert harness.lines[500:540] == harness.dram(500 * size, 40)
            assert all(ctx.get(signal) for signal in dut.idle)
        stuck[0] = False
        lines = list(harness.lines)
        for opcode in (Opcode.LOAD, Opcode.STORE):
            for body in commands(opcode, 2):
                harness.give(opcode.engine - 1, 5, body)
        await harness.until_idle(ctx)
        for part in range(3):
            place = 1000 + 100 * part
            assert harness.lines[place : place + 40] == harness.dram(place * size, 40)
            assert harness.dram(0x8000 + place * size, 40) == lines[2000 + place : 2040 + place]
        # Of the old stores, every line was written whole and rightly, or not at all.
        if channel in ("aw", "w"):
            after = harness.dram(0x8000, 100)
            low = (1 << 32) - 1
            for place in range(40):
                for shift in (0, 32):
                    assert after[place] >> shift & low in {
                        before[place] >> shift & low,
                        lines[2000 + place] >> shift & low,
                    }
        assert memory.quiet and not harness.faults

    simulate(harness, bench, 20_000)
