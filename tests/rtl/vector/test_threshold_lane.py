"""One lane's search for its threshold against sorting, in rows as long as there may be."""

import random

import pytest
from amaranth.sim import Simulator

from bertha.rtl.vector.threshold import ROUNDS
from bertha.rtl.vector.threshold_lane import DIGIT_BITS, DISTANCE_BITS, ThresholdLane


def search(distances, keys):
    """Whether the lane keeps each of the distances (1024 and more: beyond), by counting them as often as it wants."""
    dut = ThresholdLane()
    kept = []

    async def testbench(ctx):
        ctx.set(dut.most, keys - 1)
        ctx.set(dut.step.start, 1)
        await ctx.tick()
        ctx.set(dut.step.start, 0)
        for number in range(ROUNDS):
            fixed = (1 << DISTANCE_BITS) - (1 << DISTANCE_BITS - number * DIGIT_BITS)
            ctx.set(dut.step, {"digit": 1 << ROUNDS - 1 - number, "fixed": fixed})
            for position, distance in enumerate(distances):
                ctx.set(dut.distance, distance % 1024)
                ctx.set(dut.beyond, distance >= 1024)
                ctx.set(dut.take, 0b11 if position else 0b01)  # the one before is counted
                await ctx.tick()
            ctx.set(dut.take, 0b10)
            await ctx.tick()
            ctx.set(dut.take, 0)
            ctx.set(dut.step.choose, 1)
            await ctx.tick()
            ctx.set(dut.step.choose, 0)
        for distance in distances:
            ctx.set(dut.distance, distance % 1024)
            ctx.set(dut.beyond, distance >= 1024)
            ctx.set(dut.keep, 1)
            kept.append(bool(ctx.get(dut.kept)))
            await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.run()
    return kept


def expected(distances, keys):
    nearest = sorted(range(len(distances)), key=lambda key: (distances[key], key))[:keys]
    return [key in nearest for key in range(len(distances))]


@pytest.mark.parametrize("spread", [3, 80, 1023, 3000])
def test_random_distances(spread):
    chance = random.Random(spread)
    print(f"seed {spread}")
    for _ in range(4):
        distances = [chance.randint(0, spread) for _ in range(chance.randint(1, 60))]
        keys = chance.randint(1, len(distances))
        # Whether what is beyond is kept doesn't matter: it has no probability.
        near = [distance < 1024 for distance in distances]
        found = zip(search(distances, keys), expected(distances, keys), near, strict=True)
        assert all(kept == right for kept, right, counts in found if counts)


@pytest.mark.parametrize("keys", [2, 4096])
def test_longest_row_of_equal_distances(keys):
    """All of a round's hits in one counter: it counts from 4095 to below 0."""
    assert search([513] * 4096, keys) == [key < keys for key in range(4096)]
