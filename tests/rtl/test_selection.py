"""Choices that need no order, on every choice."""

import pytest
from amaranth.hdl import Module, Signal
from amaranth.sim import Simulator

from bertha.rtl.selection import one_hot_select

VALUES = [0x5A, 0xFF, 0x01]


@pytest.mark.parametrize("chosen", [None, 0, 1, 2])
def test_one_hot_select(chosen):
    m = Module()
    selects, selected = Signal(len(VALUES)), Signal(8)
    m.d.comb += selected.eq(one_hot_select(selects, VALUES))

    async def bench(ctx):
        ctx.set(selects, 0 if chosen is None else 1 << chosen)
        assert ctx.get(selected) == (0 if chosen is None else VALUES[chosen])

    simulator = Simulator(m)
    simulator.add_testbench(bench)
    simulator.run()


def test_as_many_values_as_bits():
    with pytest.raises(ValueError):
        one_hot_select(Signal(2), VALUES)
