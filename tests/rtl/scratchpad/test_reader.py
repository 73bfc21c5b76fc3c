"""LineReader and LineWriter on a real scratchpad."""

import random

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring

from rtl.config import PRESETS
from rtl.isa import FaultReason
from rtl.scratchpad.reader import LineReader
from rtl.scratchpad.scratchpad import Scratchpad
from rtl.scratchpad.writer import LineWriter
from tests.rtl.streams import PATTERNS, Pace, collect, feed, run


class Pair(wiring.Component):
    """A writer and two readers that share a scratchpad."""

    def __init__(self, config):
        super().__init__({})
        self.writer = LineWriter(config)
        self.readers = [LineReader(config), LineReader(config)]
        self.scratchpad = Scratchpad(config, readers=2, writers=1)

    def elaborate(self, platform):
        m = Module()
        m.submodules.scratchpad = self.scratchpad
        m.submodules.writer = self.writer
        wiring.connect(m, self.writer.port, self.scratchpad.write[0])
        for number, reader in enumerate(self.readers):
            m.submodules[f"reader_{number}"] = reader
            wiring.connect(m, reader.port, self.scratchpad.read[number])
        return m


@pytest.mark.parametrize("name", ["tiny4", "edge8"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_lines_come_back_in_order(name, pattern):
    config = PRESETS[name]
    rng = random.Random(7)
    dut = Pair(config)
    lines = {addr: rng.getrandbits(config.line_bits) for addr in range(64)}
    ranges = [(rng.randrange(40), rng.randrange(1, 24)) for _ in range(12)]
    expected = [lines[a + i] for a, n in ranges for i in range(n)]

    async def bench(ctx):
        await feed(ctx, dut.writer.i, [
            {"addr": a, "data": d, "index": 0} for a, d in lines.items()
        ], Pace(pattern, 1))
        await ctx.tick().repeat(4)
        started.append(True)

    started = []

    def reading(reader, seed):
        async def feeding(ctx):
            while not started:
                await ctx.tick()
            await feed(ctx, reader.i, [{"addr": a, "count": n, "index": 0} for a, n in ranges])

        async def collecting(ctx):
            got = await collect(ctx, reader.o, len(expected), Pace(pattern, seed))
            assert got == expected
            await ctx.tick().repeat(2)
            assert ctx.get(reader.idle)

        return feeding, collecting

    run(dut, bench, *reading(dut.readers[0], 2), *reading(dut.readers[1], 3))


def test_two_readers_reach_a_line_a_cycle_together():
    config = PRESETS["tiny4"]
    dut = Pair(config)
    cycles = []

    def reading(reader):
        async def bench(ctx):
            await feed(ctx, reader.i, [{"addr": 0, "count": 400, "index": 0}])

        async def collecting(ctx):
            count = 0
            await collect(ctx, reader.o, 400)
            cycles.append(count)

        return bench, collecting

    run(dut, *reading(dut.readers[0]), *reading(dut.readers[1]), timeout=420)


@pytest.mark.parametrize("addr, count", [(8191, 2), (8192, 1), (2**24 - 1, 1), (0, 8193)])
def test_reader_faults_before_it_leaves_the_scratchpad(addr, count):
    config = PRESETS["tiny4"]
    assert config.lines == 8192
    dut = Pair(config)

    async def bench(ctx):
        reader = dut.readers[0]
        await feed(ctx, reader.i, [{"addr": addr, "count": count, "index": 5}])
        for _ in range(3):
            assert not ctx.get(reader.port.request.valid)
            if ctx.get(reader.fault.valid):
                break
            await ctx.tick()
        assert ctx.get(reader.fault.valid)
        assert ctx.get(reader.fault.payload.reason) == FaultReason.SCRATCHPAD_RANGE
        assert ctx.get(reader.fault.payload.index) == 5
        for _ in range(8):
            assert not ctx.get(reader.port.request.valid)
            await ctx.tick()

    run(dut, bench)


def test_writer_faults_and_writes_nothing_outside():
    config = PRESETS["tiny4"]
    dut = Pair(config)

    async def bench(ctx):
        await feed(ctx, dut.writer.i, [{"addr": 0, "data": 1, "index": 1},
                                       {"addr": config.lines, "data": 2, "index": 9}])
        for _ in range(3):
            if ctx.get(dut.writer.fault.valid):
                break
            await ctx.tick()
        assert ctx.get(dut.writer.fault.payload.reason) == FaultReason.SCRATCHPAD_RANGE
        assert ctx.get(dut.writer.fault.payload.index) == 9
        await ctx.tick().repeat(3)
        await feed(ctx, dut.readers[0].i, [{"addr": 0, "count": 1, "index": 0}])
        assert await collect(ctx, dut.readers[0].o, 1) == [1]

    run(dut, bench)
