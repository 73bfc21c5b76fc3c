"""Rounding, saturation and shifts in hardware against Python integers."""

import pytest
from amaranth.hdl import Module, Signal, signed, unsigned
from amaranth.sim import Simulator

from bertha.rtl.arithmetic import residue, round_half_up, saturate, split_wide


def evaluate(build, shape, values, extra=None):
    """Values of the expression `build(signal, extra signal)` for every value of the signal."""
    m = Module()
    source, side = Signal(shape), Signal(6)
    m.d.comb += Signal(name="anchor").eq(source[0])
    expression = build(source, side)
    results = []

    async def bench(ctx):
        for value in values:
            ctx.set(source, value)
            if extra is not None:
                ctx.set(side, extra)
            results.append(ctx.get(expression))

    simulator = Simulator(m)
    simulator.add_testbench(bench)
    simulator.run()
    return results


@pytest.mark.parametrize("shift", [0, 1, 4, 7])
def test_round_half_up_is_floor_of_value_plus_half(shift):
    values = list(range(-512, 512))
    got = evaluate(lambda v, _: round_half_up(v, shift), signed(10), values)
    expected = [(2 * v + (1 << shift)) // (2 << shift) for v in values]
    assert got == expected


@pytest.mark.parametrize("source", [signed(10), signed(8), signed(6), signed(9)])
@pytest.mark.parametrize("target", [signed(8), unsigned(8)])
def test_saturate(source, target):
    width = source.width
    values = list(range(-(1 << (width - 1)), 1 << (width - 1)))
    low, high = (-128, 127) if target.signed else (0, 255)
    expected = [max(low, min(high, v)) for v in values]
    assert evaluate(lambda v, _: saturate(v, target), source, values) == expected


@pytest.mark.parametrize("target, high", [(signed(8), 127), (unsigned(8), 255)])
def test_saturate_unsigned_source(target, high):
    values = list(range(1024))
    got = evaluate(lambda v, _: saturate(v, target), unsigned(10), values)
    assert got == [min(high, v) for v in values]


def test_planes_of_every_word():
    words = range(-32768, 32768)
    high = evaluate(lambda word, _: split_wide(word)[0], signed(16), words)
    low = evaluate(lambda word, _: split_wide(word)[1], signed(16), words)
    assert [256 * upper + lower for upper, lower in zip(high, low)] == [min(word, 32639) for word in words]
    assert set(high) == set(low) == set(range(-128, 128))


def test_residue_of_every_word():
    words = range(-32768, 32768)
    got = evaluate(lambda word, _: residue(word), signed(16), words)

    def saturated(value):
        return max(-128, min(127, value))

    assert got == [saturated(word - saturated(word)) for word in words]
