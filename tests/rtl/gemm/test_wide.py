"""Operands of two planes: what they compute, against plain integers, and that a tile takes two passes and no more."""

import random

import pytest
from amaranth.hdl import Module

from bertha.rtl.config import PRESETS
from bertha.rtl.gemm.combiner import PlaneCombiner
from bertha.rtl.isa import Wide
from tests.rtl.gemm.model import round_half_up, saturate
from tests.rtl.gemm.test_gemm import RESIDUE, A, B, Bench, C, random_rows
from tests.rtl.panels import panel8_lines, read8, read16
from tests.rtl.streams import run

LOW = 100  # lines from a high plane to its low plane
PANEL = 16  # lines from one operand to the next


def planes(rows):
    """High and low bytes, signed, of rows of int16 values up to 32639."""
    high = [[(value + 128) // 256 for value in row] for row in rows]
    low = [[(value + 128) % 256 - 128 for value in row] for row in rows]
    return high, low


def products(wide_rows, rows):
    """(sum of value * byte) / 16, rounded, for each pair of rows."""
    return [[round_half_up(sum(x * y for x, y in zip(a, b)), 4) for b in rows] for a in wide_rows]


@pytest.mark.parametrize("n", [4, 8, 16, 32])
def test_combiner(n):
    """Passes in any order, a word a cycle: whole ones, and pairs with whole ones between two pairs only."""
    rng = random.Random(n)
    print(f"seed {n}")
    dut = PlaneCombiner(n)
    m = Module()
    m.submodules.dut = dut

    def number():
        return rng.choice(
            [-(1 << 31), (1 << 31) - 1, rng.randint(-400, 400), rng.randrange(-(1 << 31), 1 << 31)]
        )

    async def bench(ctx):
        async def give(words, **flags):
            got = []
            ctx.set(dut.i.wide_high, flags.get("wide_high", 0))
            ctx.set(dut.i.wide_low, flags.get("wide_low", 0))
            for word in words:
                ctx.set(dut.i.valid, 1)
                ctx.set(dut.i.word, word)
                _, _, valid, lanes = await ctx.tick().sample(dut.o.valid, dut.o.word)
                if valid:
                    got.append(list(lanes))
            ctx.set(dut.i.valid, 0)
            return got

        for _ in range(6):
            high, low, whole = ([[number() for _ in range(n)] for _ in range(n)] for _ in range(3))
            assert await give(high, wide_high=1) == []
            for _ in range(rng.randrange(3)):
                await ctx.tick()
            total = [
                [16 * left + round_half_up(right, 4) for left, right in zip(*words)]
                for words in zip(high, low)
            ]
            wrapped = [[(t + (1 << 31)) % (1 << 32) - (1 << 31) for t in word] for word in total]
            assert await give(low, wide_low=1) == wrapped
            if rng.randrange(2):
                assert await give(whole) == whole

    run(m, bench)


@pytest.mark.parametrize("name, k", [("tiny4", 2), ("tiny4", 4), ("tiny4", 10), ("edge8", 4), ("edge8", 8)])
@pytest.mark.parametrize("pattern", ["always", "often"])
def test_wide_tiles_between_others(name, k, pattern):
    """Commands with either operand wide and with none, one behind the other; results as int16 and as planes."""
    config = PRESETS[name]
    n = config.array_n
    rng = random.Random(k)
    print(f"seed {k}")
    dut = Bench(config, pattern, k)
    count = 3
    kinds = [Wide.A, Wide.NONE, Wide.B, Wide.B, Wide.NONE, Wide.A]
    wide_rows = [random_rows(rng, n, k, -32768, 32639) for _ in range(count)]
    rows = [random_rows(rng, n, k, -128, 127) for _ in range(count)]
    for tile in range(count):
        for place, plane in zip((A, A + LOW), planes(wide_rows[tile])):
            dut.put(place + PANEL * tile, panel8_lines(plane, n))
        dut.put(B + PANEL * tile, panel8_lines(rows[tile], n))

    async def bench(ctx):
        for number, kind in enumerate(kinds):
            a, b = (B, A) if kind == Wide.B else (A, B)
            await dut.command(
                ctx, number, a_addr=a, b_addr=b, a_stride=PANEL, b_stride=PANEL, c_addr=C + 8 * n * number,
                c_stride=n, residue_addr=RESIDUE + 8 * n * number, residue_stride=n, low_offset=LOW, columns=n,
                k=k, count=count, mult=40000, shift=20, out16=number % 2, out_wide=1 - number % 2, wide=kind,
            )  # fmt: skip
        await dut.until_idle(ctx)

    dut.run(bench)
    for number, kind in enumerate(kinds):
        for tile in range(count):
            high, _ = planes(wide_rows[tile])
            if kind == Wide.NONE:
                total = [[sum(x * y for x, y in zip(a, b)) for b in rows[tile]] for a in high]
            else:
                total = products(wide_rows[tile], rows[tile])
            if kind == Wide.B:
                total = [list(row) for row in zip(*total)]
            expected = [[saturate(round_half_up(t * 40000, 20), 16) for t in row] for row in total]
            c_addr = C + 8 * n * number + n * tile
            residue_addr = RESIDUE + 8 * n * number + n * tile
            if number % 2:
                assert read16(dut.memory.lines, c_addr, n, n) == expected
            else:
                high, low = planes([[min(value, 32639) for value in row] for row in expected])
                assert read8(dut.memory.lines, c_addr, n, n) == high
                assert read8(dut.memory.lines, residue_addr, n, n) == low


@pytest.mark.parametrize("name, k", [("tiny4", 2), ("tiny4", 6), ("edge8", 20)])
@pytest.mark.parametrize("out_wide", [0, 1])
def test_products_of_unsigned_bytes_with_planes(name, k, out_wide):
    """P·V of a wide V: row factors with a gain, a slot a tile, ranges that only tiles with `ranges` look at."""
    config = PRESETS[name]
    n = config.array_n
    rng = random.Random(k)
    print(f"seed {k}")
    dut = Bench(config, "often", k)
    count, gain, columns = 3, 6, n - 1
    rows = [random_rows(rng, n, k, 0, 255) for _ in range(count)]
    values = random_rows(rng, n, k, -32768, 32639)
    values[0] = [128] * k  # the low plane's bytes are the lowest that there are
    values[1] = [32639] * k
    factors = [[(rng.randint(1 << 15, (1 << 16) - 1), rng.randint(25, 38)) for _ in range(n)] for _ in rows]
    factors[0][0] = (50000, 4)  # the shift stops at 0
    for place, plane in zip((B, B + LOW), planes(values)):
        dut.put(place, panel8_lines(plane, n))
    for tile in range(count):
        dut.put(A + PANEL * tile, panel8_lines(rows[tile], n))

    async def bench(ctx):
        for tile in range(count):
            await dut.write_factors(ctx, 2 + tile, factors[tile])
            await dut.write_ranges(ctx, 2 + tile, [(1, 2)] * n)
        for number, ranges in enumerate((0, 1)):
            await dut.command(
                ctx, number, a_addr=A, a_stride=PANEL, a_unsigned=1, b_addr=B, low_offset=LOW, wide=Wide.B, k=k,
                count=count, columns=columns, row_factor=1, slot=2, slot_step=1, gain=gain, ranges=ranges,
                c_addr=C + 200 * number, c_stride=n, residue_addr=RESIDUE + 200 * number, residue_stride=n,
                out_wide=out_wide,
            )  # fmt: skip
        await dut.until_idle(ctx)

    dut.run(bench)
    for number, tile in [(number, tile) for number in range(2) for tile in range(count)]:
        expected = []
        for row, (mult, shift) in zip(rows[tile], factors[tile]):
            totals = [round_half_up(sum(p * v for p, v in zip(row, value)), 4) for value in values[:columns]]
            words = [saturate(round_half_up(total * mult, max(shift - gain, 0)), 16) for total in totals]
            expected.append(
                [word if column == 1 or not number else -32768 for column, word in enumerate(words)]
            )
        got = read8(dut.memory.lines, C + 200 * number + n * tile, columns, n)
        if not out_wide:
            assert got == [[saturate(word, 8) for word in row] for row in expected]
            continue
        high, low = planes([[min(value, 32639) for value in row] for row in expected])
        assert got == high
        assert read8(dut.memory.lines, RESIDUE + 200 * number + n * tile, columns, n) == low


@pytest.mark.parametrize("name, k", [("tiny4", 4), ("tiny4", 8), ("edge8", 8), ("edge8", 32)])
@pytest.mark.parametrize("wide", [Wide.A, Wide.B])
def test_a_wide_tile_takes_two_passes_of_k_cycles(name, k, wide):
    """From the first to the last step of many tiles every cycle feeds the array, 2 K cycles a tile."""
    config = PRESETS[name]
    n = config.array_n
    count = 32
    dut = Bench(config)
    active = []

    async def watch(ctx):
        while True:
            _, _, is_active = await ctx.tick().sample(dut.engine.control.active)
            active.append(is_active)

    async def bench(ctx):
        rng = random.Random(1)
        print("seed 1")
        for place in (A, A + LOW, B, B + LOW):
            dut.put(place, panel8_lines(random_rows(rng, n, k, -128, 127), n))
        for _ in range(2):
            await dut.command(
                ctx, 0, a_addr=A, b_addr=B, low_offset=LOW, c_addr=C, residue_addr=RESIDUE, columns=n, k=k,
                count=count // 2, mult=1, shift=3, out_wide=1, wide=wide,
            )  # fmt: skip
        await dut.until_idle(ctx)
        first = active.index(1)
        last = len(active) - 1 - active[::-1].index(1)
        assert sum(active) == last - first + 1 == 2 * k * count

    run(dut, bench, background=[dut.memory.serve, dut.semaphores, watch], timeout=20_000)
