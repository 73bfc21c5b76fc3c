"""The register harness: every input bit can be driven, every output bit shows."""

import re

import pytest
from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator

from bertha.fpga.harness import Harness
from bertha.rtl.stream import Queue
from bertha.rtl.verilog import convert


class Wires(wiring.Component):
    """Passes six bits, spread over ports and a stream, straight through."""

    def __init__(self):
        super().__init__(
            {"low": In(2), "i": In(stream.Signature(2)), "low_out": Out(2), "o": Out(stream.Signature(2))}
        )

    def elaborate(self, platform):
        m = Module()
        m.d.comb += [
            self.low_out.eq(self.low),
            self.o.payload.eq(self.i.payload),
            self.o.valid.eq(self.i.valid),
            self.i.ready.eq(self.o.ready),
        ]
        return m


def response(bits):
    """`o` after each clock while `bits` are shifted in, from zeros, by simulation."""
    dut = Harness(Wires())
    seen = []

    async def testbench(ctx):
        for bit in bits:
            ctx.set(dut.i, bit)
            ctx.set(dut.clk, 1)
            await ctx.delay(1e-9)
            ctx.set(dut.clk, 0)
            await ctx.delay(1e-9)
            seen.append(ctx.get(dut.o))

    simulator = Simulator(dut)
    simulator.add_testbench(testbench)
    simulator.run()
    return seen


def expected(bits):
    """The same of lists. The six outputs are copies of the six inputs, both in the order of the ports."""
    inputs = ["low0", "low1", "payload0", "payload1", "valid", "ready"]
    outputs = ["ready", "low0", "low1", "payload0", "payload1", "valid"]
    driven, captured, folded = dict.fromkeys(inputs, 0), [0] * 6, [0] * 6
    seen = []
    for bit in bits:
        folded = [c ^ f for c, f in zip(captured, [0, *folded])]
        captured = [driven[name] for name in outputs]
        driven = dict(zip(inputs, [1 - value for value in (bit, *driven.values())]))
        seen.append(folded[-1])
    return seen


@pytest.mark.parametrize("pulse", range(4))
def test_every_bit_is_driven_and_shows(pulse):
    bits = [int(cycle == pulse) for cycle in range(24)]
    assert response(bits) == expected(bits)
    assert any(response(bits))


def test_two_pins_besides_clock_and_reset_suffice():
    text = convert(Harness(Queue(8, 4)), name="harness")
    ports = re.search(r"^module harness\((.*?)\);", text, re.MULTILINE)[1]
    assert sorted(ports.split(", ")) == ["clk", "i", "o", "rst"]
