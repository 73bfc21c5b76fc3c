"""RoundingShift against exact integers."""

import random

import pytest

from bertha.rtl.lanes.rounding_shift import RoundingShift
from tests.rtl.streams import run
from tests.rtl.vector.model import rhu, saturate


@pytest.mark.parametrize("in_bits, out_bits", [(45, 18), (34, 18), (33, 16), (12, 16), (49, 16), (16, 16)])
def test_rounds_and_saturates(in_bits, out_bits):
    rng = random.Random(in_bits)
    dut = RoundingShift(in_bits, out_bits)
    low, high = -(1 << (in_bits - 1)), (1 << (in_bits - 1)) - 1

    async def bench(ctx):

        for shift in range(64):
            half = 1 << max(shift - 1, 0)
            top = ((1 << (out_bits - 1)) - 1 << shift) + half  # the first that saturates
            values = [low, low + 1, high, high - 1, 0, 1, -1]
            values += [edge + delta for edge in (half, -half, top, -top) for delta in (-1, 0, 1)]
            values += [rng.getrandbits(rng.randint(1, in_bits - 1)) * rng.choice([-1, 1]) for _ in range(12)]
            values = [value for value in values if low <= value <= high]
            ctx.set(dut.shift, shift)
            for value in values:
                ctx.set(dut.value, value)
                await ctx.tick().repeat(dut.latency)
                assert ctx.get(dut.o) == saturate(rhu(value, shift), out_bits), (value, shift)

    run(dut, bench)
