"""The fetcher on bursts that end where they shouldn't."""

import random

import pytest

from bertha.rtl.config import PRESETS
from bertha.rtl.control.fetcher import Fetcher
from bertha.rtl.isa import FaultReason
from tests.rtl.streams import run

EDGE = PRESETS["edge8"]
LENGTH = 9
BASE = 0x1000


class Harness:
    """Answers the fetcher's bursts, each with as many beats more or fewer as `changes` says, in order."""

    def __init__(self, config, changes, *, stray_at=None):
        self.dut = Fetcher(config)
        self.config = config
        self.changes = changes
        self.stray_at = stray_at
        self.rng = random.Random(3)
        self.commands, self.faults = [], []
        self.cycle = 0

    async def memory(self, ctx):
        r, ar = self.dut.dram.r, self.dut.dram.ar
        bursts, beats = 0, []
        ctx.set(ar.ready, 1)
        while True:
            sampled = await ctx.tick().sample(ar.valid, ar.payload.addr, ar.payload.len)
            _, _, valid, addr, length = sampled
            self.cycle += 1
            if valid:
                count = length + 1 + self.changes.get(bursts, 0)
                size = self.config.axi_data_bytes
                beats += [(addr + n * size, n == count - 1) for n in range(count)]
                bursts += 1
            stray = self.stray_at is not None and self.cycle == self.stray_at
            answers = beats and not stray and self.rng.random() < 0.8
            ctx.set(r.valid, bool(answers) or stray)
            if answers:
                data, last = beats.pop(0)
                ctx.set(r.payload, {"data": data, "resp": 0, "last": last})
            elif stray:
                ctx.set(r.payload, {"data": 0, "resp": 0, "last": 1})

    async def watch(self, ctx):
        dut = self.dut
        while True:
            sampled = await ctx.tick().sample(
                dut.o.valid, dut.o.ready, dut.o.payload, dut.fault.valid, dut.fault.payload
            )
            _, _, valid, ready, command, fault, payload = sampled
            if valid and ready:
                self.commands.append((command.index, command.body))
            if fault:
                self.faults.append((payload.reason, payload.index))
            ctx.set(dut.o.ready, self.rng.random() < 0.2)

    def run(self, bench):
        run(self.dut, bench, background=(self.memory, self.watch), timeout=4000)

    async def start(self, ctx):
        ctx.set(self.dut.window.limit, 0x4000)
        for name, value in (("addr", BASE), ("length", LENGTH), ("start", 1)):
            ctx.set(getattr(self.dut, name), value)
        await ctx.tick()
        ctx.set(self.dut.start, 0)

    async def abort(self, ctx):
        """As the supervisor does it: until nothing is on the bus."""
        ctx.set(self.dut.abort, 1)
        for _ in range(400):
            await ctx.tick()
            if ctx.get(self.dut.idle):
                break
        assert ctx.get(self.dut.idle)
        ctx.set(self.dut.abort, 0)

    def expected(self, count):
        size, beats = self.config.axi_data_bytes, 64 // self.config.axi_data_bytes
        return [
            (index, sum(BASE + (index * beats + n) * size << 8 * size * n for n in range(beats)))
            for index in range(count)
        ]


@pytest.mark.parametrize("config", [EDGE, EDGE.replace(axi_data_bits=32, burst_beats=4)])
@pytest.mark.parametrize("change", [-3, -1, 1, 30])
@pytest.mark.parametrize("command", [0, 4, LENGTH - 1])
def test_a_burst_of_the_wrong_length_names_its_command(config, change, command):
    """Everything before it is right, nothing comes after it, and the next program is right."""
    bursts = 64 // config.axi_data_bytes // min(64 // config.axi_data_bytes, config.burst_beats)
    harness = Harness(config, {command * bursts: change})

    async def bench(ctx):
        await harness.start(ctx)
        await ctx.tick().until(harness.dut.fault.valid)
        await ctx.tick().repeat(5)
        assert harness.faults == [(FaultReason.AXI_PROTOCOL, command)]
        assert harness.commands == harness.expected(command)
        await harness.abort(ctx)
        harness.changes = {}
        harness.commands.clear()
        await harness.start(ctx)
        while len(harness.commands) < LENGTH:
            await ctx.tick()
        await ctx.tick().repeat(5)
        assert harness.commands == harness.expected(LENGTH)
        assert len(harness.faults) == 1 and ctx.get(harness.dut.idle)

    harness.run(bench)


def test_a_beat_of_no_burst_faults_at_once():
    """Also when nothing is left to fetch: the index is that of the command that would be next."""
    harness = Harness(EDGE, {}, stray_at=1500)

    async def bench(ctx):
        await harness.start(ctx)
        await ctx.tick().until(harness.dut.fault.valid)
        await ctx.tick().repeat(5)
        assert harness.commands == harness.expected(LENGTH)
        assert harness.faults == [(FaultReason.AXI_PROTOCOL, LENGTH)]

    harness.run(bench)


def test_a_stray_answer_of_somebody_else_faults_at_once():
    harness = Harness(EDGE, {})

    async def bench(ctx):
        await harness.start(ctx)
        while len(harness.commands) < 2:
            await ctx.tick()
        taken = len(harness.commands)
        ctx.set(harness.dut.stray, 1)
        await ctx.tick()
        ctx.set(harness.dut.stray, 0)
        await ctx.tick().repeat(3)
        assert [reason for reason, _ in harness.faults] == [FaultReason.AXI_PROTOCOL]
        assert taken <= harness.faults[0][1] <= taken + 1

    harness.run(bench)
