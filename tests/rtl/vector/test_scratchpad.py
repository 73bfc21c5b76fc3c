"""The vector engine on the real scratchpad and row slots, beside a reader that competes with it."""

import random

from amaranth.hdl import Module
from amaranth.lib import wiring

from bertha.rtl.config import PRESETS
from bertha.rtl.row_slots import RowSlots
from bertha.rtl.scratchpad.scratchpad import Scratchpad
from bertha.rtl.vector.vector import VectorEngine
from tests.rtl.streams import Pace, run
from tests.rtl.vector.bench import Bench
from tests.rtl.vector.scenarios import Scenario, random_panel, random_records

IDLE_LATENCY = 3
"""Cycles until `idle` knows of a command: the queue, the border's register."""


class Assembly(wiring.Component):
    """Read port 0 of the scratchpad and write port 0 stay free for the test."""

    def __init__(self, config):
        super().__init__({})
        self.engine = VectorEngine(config)
        self.scratchpad = Scratchpad(config, readers=3, writers=2)
        self.slots = RowSlots(config)

    def elaborate(self, platform):
        m = Module()
        m.submodules.engine = engine = self.engine
        m.submodules.scratchpad = scratchpad = self.scratchpad
        m.submodules.slots = slots = self.slots
        wiring.connect(m, engine.source, scratchpad.read[1])
        wiring.connect(m, engine.params, scratchpad.read[2])
        wiring.connect(m, engine.write, scratchpad.write[1])
        wiring.connect(m, engine.statistics_read, slots.statistics_read)
        wiring.connect(m, engine.factor_write, slots.factor_write)
        return m


def test_beside_a_competing_reader():
    config = PRESETS["tiny4"]
    rng = random.Random(31)
    bench = Bench(config)
    scenario = Scenario(bench)
    scenario.exp2()
    scenario.softmax(random_panel(rng, 32, 4, -500, 0))
    scenario.layernorm(random_panel(rng, 24, 4), random_records(rng, 24), in_place=True)
    scenario.quantize(random_panel(rng, 24, 4), random_records(rng, 24))
    dut = Assembly(config)
    engine, pad, slots = dut.engine, dut.scratchpad, dut.slots

    async def read(ctx, addr):
        ctx.set(pad.read[0].request.payload, addr)
        ctx.set(pad.read[0].request.valid, 1)
        await ctx.tick().until(pad.read[0].request.ready)
        ctx.set(pad.read[0].request.valid, 0)
        while not ctx.get(pad.read[0].data_valid):
            await ctx.tick()
        return ctx.get(pad.read[0].data)

    async def main(ctx):
        for addr, line in bench.memory.items():
            ctx.set(pad.write[0].payload, {"addr": addr, "data": line})
            ctx.set(pad.write[0].valid, 1)
            await ctx.tick().until(pad.write[0].ready)
        ctx.set(pad.write[0].valid, 0)
        for slot, rows in bench.statistics.items():
            ctx.set(slots.statistics_write.enable, 1)
            ctx.set(slots.statistics_write.slot, slot)
            for lane, (total, squares) in enumerate(rows):
                ctx.set(slots.statistics_write.lanes[lane], {"sum": total, "squares": squares})
            await ctx.tick()
        ctx.set(slots.statistics_write.enable, 0)

        control = engine.control
        ctx.set(control.post.ready, 1)
        pace = Pace("often", 32)

        async def tick():
            """A cycle in which the other reader may want something; whether the command was taken."""
            ctx.set(pad.read[0].request.payload, rng.randrange(config.lines))
            ctx.set(pad.read[0].request.valid, pace.willing())
            _, _, took, fault = await ctx.tick().sample(control.command.ready, control.fault.valid)
            assert not fault
            return took

        for command in bench.commands:
            ctx.set(control.command.payload, command)
            ctx.set(control.command.valid, 1)
            while not await tick():
                pass
            ctx.set(control.command.valid, 0)
            for _ in range(IDLE_LATENCY):
                await tick()
            while not ctx.get(control.idle):
                await tick()
        ctx.set(pad.read[0].request.valid, 0)
        await ctx.tick().repeat(Scratchpad.latency + 1)

        for addr, line in scenario.expected_lines.items():
            assert await read(ctx, addr) == line
        for slot, factors in scenario.expected_factors.items():
            ctx.set(slots.factor_read.slot, slot)
            await ctx.tick()
            for lane, factor in enumerate(factors):
                got = ctx.get(slots.factor_read.lanes[lane])
                assert (got.mult, got.shift) == factor

    run(dut, main, timeout=5000)
