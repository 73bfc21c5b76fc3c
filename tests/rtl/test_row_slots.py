"""Row slots: what is written to a slot is read from it, and nothing else changes."""

import random

import pytest

from bertha.rtl.config import PRESETS
from bertha.rtl.row_slots import RowSlots
from tests.rtl.streams import run


@pytest.mark.parametrize("name", ["tiny4", "edge8"])
def test_slots_keep_what_was_written(name):
    config = PRESETS[name]
    rng = random.Random(5)
    dut = RowSlots(config)
    lanes = range(config.array_n)

    async def bench(ctx):
        statistics, factors, ranges = {}, {}, {}
        for slot in range(config.row_slots):
            statistics[slot] = [(rng.randrange(-(1 << 27), 1 << 27), rng.randrange(1 << 43)) for _ in lanes]
            factors[slot] = [(rng.randrange(1 << 16), rng.randrange(1 << 6)) for _ in lanes]
            ranges[slot] = [(rng.randrange(1 << 16), rng.randrange(1 << 16)) for _ in lanes]
            ctx.set(dut.range_write.slot, slot)
            ctx.set(dut.statistics_write.slot, slot)
            ctx.set(dut.factor_write.slot, slot)
            for lane in lanes:
                total, squares = statistics[slot][lane]
                ctx.set(dut.statistics_write.lanes[lane], {"sum": total, "squares": squares})
                mult, shift = factors[slot][lane]
                ctx.set(dut.factor_write.lanes[lane], {"mult": mult, "shift": shift})
                first, last = ranges[slot][lane]
                ctx.set(dut.range_write.lanes[lane], {"first": first, "last": last})
            ctx.set(dut.range_write.enable, 1)
            ctx.set(dut.statistics_write.enable, 1)
            ctx.set(dut.factor_write.enable, 1)
            await ctx.tick()
        ctx.set(dut.statistics_write.enable, 0)
        ctx.set(dut.factor_write.enable, 0)
        ctx.set(dut.range_write.enable, 0)
        ctx.set(dut.statistics_write.lanes[0].sum, 1)
        for slot in rng.sample(range(config.row_slots), config.row_slots):
            for port in (dut.statistics_read, dut.statistics_continue, dut.factor_read, dut.range_read):
                ctx.set(port.slot, slot)
            ctx.set(dut.statistics_continue.enable, 1)
            await ctx.tick()
            ctx.set(dut.statistics_continue.enable, 0)
            for port in (dut.statistics_continue, dut.statistics_read):
                if port is dut.statistics_read:
                    await ctx.tick()
                got = [(ctx.get(port.lanes[i].sum), ctx.get(port.lanes[i].squares)) for i in lanes]
                assert got == statistics[slot]
            got = [
                (ctx.get(dut.factor_read.lanes[i].mult), ctx.get(dut.factor_read.lanes[i].shift))
                for i in lanes
            ]
            assert got == factors[slot]
            got = [
                (ctx.get(dut.range_read.lanes[i].first), ctx.get(dut.range_read.lanes[i].last)) for i in lanes
            ]
            assert got == ranges[slot]
            held = ctx.get(dut.statistics_continue.lanes[0].sum)
            ctx.set(dut.statistics_continue.slot, (slot + 1) % config.row_slots)
            await ctx.tick()
            assert ctx.get(dut.statistics_continue.lanes[0].sum) == held

    run(dut, bench)
