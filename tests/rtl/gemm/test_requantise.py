"""Requantisation over its whole range of inputs against plain Python integers."""

import random

import pytest

from bertha.rtl.gemm.requantise import Requantise
from tests.rtl.gemm.model import round_half_up, saturate
from tests.rtl.streams import run

N = 4
LOW, HIGH = -(1 << 31), (1 << 31) - 1
EXTREMES = [LOW, LOW + 1, -32769, -32768, -1, 0, 1, 32767, 32768, HIGH - 1, HIGH]


def near_a_border(rng, bias, mult, shift):
    """An accumulator whose product is close to where the result, or the coarse shift, leaves its range."""
    border = rng.choice([-1, 1]) << rng.choice([15 + shift, 22 + 8 * (shift // 8), rng.randrange(49)])
    value = border // max(mult, 1) - bias + rng.randint(-2, 2)
    return max(LOW, min(HIGH, value))


def random_word(rng):
    """What the ports get in one cycle."""
    bias = rng.choice([rng.choice(EXTREMES), rng.randint(LOW, HIGH), rng.randint(-9, 9)])
    mult = rng.choice([0, 1, 2, 3, 255, 32768, 65534, 65535, rng.randrange(1 << 16)])
    shift = rng.randrange(64)
    factors = [(rng.choice([0, 1, 65535, rng.randrange(1 << 16)]), rng.randrange(64)) for _ in range(N)]
    row_factor, gain = rng.randrange(2), rng.choice([0, 1, 7, 15])
    used = [(m, max(s - gain, 0)) for m, s in factors] if row_factor else [(mult, shift)] * N
    acc = [
        rng.choice([rng.choice(EXTREMES), rng.randint(LOW, HIGH), near_a_border(rng, bias, m, s)])
        for m, s in used
    ]
    expected = [saturate(round_half_up((a + bias) * m, s), 16) for a, (m, s) in zip(acc, used)]
    ports = {"bias": bias, "mult": mult, "shift": shift, "row_factor": row_factor, "gain": gain}
    return ports, acc, factors, expected


def check(words):
    """A word a cycle, its outcome `latency` cycles later."""
    dut = Requantise(N)
    results = []

    async def bench(ctx):
        for ports, acc, factors, _ in words:
            for name, value in ports.items():
                ctx.set(getattr(dut, name), value)
            for lane in range(N):
                ctx.set(dut.acc[lane], acc[lane])
                ctx.set(dut.factors[lane].mult, factors[lane][0])
                ctx.set(dut.factors[lane].shift, factors[lane][1])
            await ctx.tick()
        await ctx.tick().repeat(dut.latency + 1)

    async def watch(ctx):
        while True:
            _, _, *lanes = await ctx.tick().sample(*(dut.o[lane] for lane in range(N)))
            results.append(lanes)

    run(dut, bench, background=[watch])
    results = results[dut.latency :]
    assert len(results) >= len(words)
    for (*inputs, expected), got in zip(words, results, strict=False):
        assert got == expected, inputs


@pytest.mark.parametrize("seed", range(3))
def test_random_words(seed):
    print(f"seed {seed}")
    rng = random.Random(seed)
    check([random_word(rng) for _ in range(6000)])


def test_extremes_of_every_input():
    nothing = [(0, 0)] * N
    words = []
    for bias in (LOW, -1, 0, HIGH):
        for mult in (0, 1, 32767, 65535):
            for shift in range(64):
                for acc in ([LOW, LOW + 1, -65536, -1], [0, 1, 65536, HIGH]):
                    ports = {"bias": bias, "mult": mult, "shift": shift, "row_factor": 0, "gain": 0}
                    expected = [saturate(round_half_up((a + bias) * mult, shift), 16) for a in acc]
                    words.append((ports, acc, nothing, expected))
    check(words)
