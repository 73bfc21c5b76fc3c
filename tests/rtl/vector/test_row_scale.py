"""RowScale against the model, over the whole range of its operands."""

import random

from bertha.rtl.config import PRESETS
from bertha.rtl.vector.row_scale import RowScale
from tests.rtl.streams import run
from tests.rtl.vector import model

CONFIG = PRESETS["edge8"]
LANES = CONFIG.array_n


async def compute(ctx, dut):
    """Starts the unit and returns the cycles until it is done."""
    ctx.set(dut.start, 1)
    await ctx.tick()
    ctx.set(dut.start, 0)
    cycles = 1
    while not ctx.get(dut.done):
        await ctx.tick()
        cycles += 1
        assert cycles < 200
    return cycles


def random_moments(rng, n):
    """Sum and sum of squares that a row of n int16 values can have."""
    limit = 1 << rng.randint(0, 15)
    total = rng.randint(-n * limit, n * (limit - 1))
    least = -(-total * total // n)
    return total, rng.choice([least, least + 1, rng.randint(least, n * limit * limit)])


def test_layernorm_scale():
    rng = random.Random(21)
    dut = RowScale(CONFIG)

    async def bench(ctx):
        for trial in range(40):
            n = rng.choice([2, 4096, 2 * rng.randint(1, 2048)])
            epsilon = rng.choice([0, (1 << rng.randint(0, 32)) - 1])
            moments = [random_moments(rng, n) for _ in range(LANES)]
            if trial == 0:
                n, epsilon = 4096, (1 << 32) - 1
                moments = [
                    (0, n << 30),
                    (-n << 15, n << 30),
                    (n * 32767, n * 32767**2),
                    (0, 0),
                    (0, 1),
                    (1, 1),
                    (-1, 1),
                    (n, n),
                ]
            if trial == 1:
                # V = 1, a root that rounds, V just below and at powers of four
                n, epsilon = 2, 0
                moments = [(1, 1), (0, 0), (1, 2), (0, 2), (0, 8), (1, 8), (3, 9), (-65536, 1 << 31)]
            ctx.set(dut.words, n)
            ctx.set(dut.epsilon, epsilon)
            for lane, (total, squares) in enumerate(moments):
                ctx.set(dut.moments[lane], {"sum": total, "squares": squares})
            assert await compute(ctx, dut) == 91
            for lane, (total, squares) in enumerate(moments):
                factor = ctx.get(dut.factors[lane])
                got = factor.mult, 31 - factor.shift
                assert got == model.row_scale(n, total, squares, epsilon), (n, total, squares)

    run(dut, bench)


def test_softmax_factor():
    rng = random.Random(22)
    dut = RowScale(CONFIG)

    async def bench(ctx):
        ctx.set(dut.softmax, 1)
        edges = [0, 1, 2, 3, 255 * 4096, (1 << 20) - 1, 1 << 19, (1 << 19) - 1]
        edges += [edge for bit in range(1, 20) for edge in ((1 << bit) - 1, 1 << bit)]
        sums = edges + [rng.getrandbits(rng.randint(1, 20)) for _ in range(150)]
        while len(sums) % LANES:
            sums.append(0)
        for first in range(0, len(sums), LANES):
            chosen = sums[first : first + LANES]
            for lane, total in enumerate(chosen):
                ctx.set(dut.probabilities[lane], total)
            assert await compute(ctx, dut) == 30
            for lane, total in enumerate(chosen):
                factor = ctx.get(dut.factors[lane])
                assert (factor.mult, factor.shift) == model.softmax_factor(total), total

    run(dut, bench)
