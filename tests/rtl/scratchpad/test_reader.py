"""LineReader and LineWriter on a real scratchpad."""

import random

import pytest
from amaranth.hdl import Module, ResetInserter, Signal
from amaranth.lib import wiring

from bertha.rtl.config import PRESETS
from bertha.rtl.isa import FaultReason
from bertha.rtl.scratchpad.reader import LineReader
from bertha.rtl.scratchpad.scratchpad import Scratchpad
from bertha.rtl.scratchpad.writer import LineWriter
from tests.rtl.streams import PATTERNS, Pace, collect, feed, run


class Pair(wiring.Component):
    """A writer and two readers that share a scratchpad. `reset` resets the engines' side only."""

    def __init__(self, config):
        super().__init__({})
        self.reset = Signal()
        self.writer = LineWriter(config)
        self.readers = [LineReader(config), LineReader(config)]
        self.scratchpad = Scratchpad(config, readers=2, writers=1)

    def elaborate(self, platform):
        m = Module()
        m.submodules.scratchpad = self.scratchpad
        m.submodules.writer = ResetInserter(self.reset)(self.writer)
        wiring.connect(m, self.writer.port, self.scratchpad.write[0])
        for number, reader in enumerate(self.readers):
            m.submodules[f"reader_{number}"] = ResetInserter(self.reset)(reader)
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
        await feed(
            ctx,
            dut.writer.i,
            [{"addr": a, "data": d, "index": 0} for a, d in lines.items()],
            Pace(pattern, 1),
        )
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


@pytest.mark.parametrize("count", [1, 2, 3, 7, 200])
def test_ranges_follow_one_another_without_a_bubble(count):
    """Once the first line has come, there is one a cycle, whatever the length of the ranges."""
    config = PRESETS["tiny4"]
    dut = Pair(config)
    reader = dut.readers[0]
    ranges = max(400 // count, 2)

    async def feeding(ctx):
        await feed(ctx, reader.i, [{"addr": n, "count": count, "index": 0} for n in range(ranges)])

    async def collecting(ctx):
        ctx.set(reader.o.ready, 1)
        await ctx.tick().until(reader.o.valid)
        for _ in range(ranges * count - 1):
            assert ctx.get(reader.o.valid)
            await ctx.tick()
        assert not ctx.get(reader.o.valid)
        assert ctx.get(reader.idle)

    run(dut, feeding, collecting)


def test_reader_stops_when_its_places_are_full():
    """While nobody takes lines, no more is asked for than there is room for, and none is lost."""
    config = PRESETS["tiny4"]
    dut = Pair(config)
    reader = dut.readers[0]

    async def bench(ctx):
        await feed(ctx, dut.writer.i, [{"addr": n, "data": n, "index": 0} for n in range(40)])
        await feed(ctx, reader.i, [{"addr": 0, "count": 40, "index": 0}])
        await ctx.tick().repeat(40)
        assert not ctx.get(reader.port.request.valid)
        assert await collect(ctx, reader.o, 40, Pace("often", 5)) == list(range(40))

    run(dut, bench)


def test_readiness_for_ranges_does_not_wait_for_the_scratchpad():
    """`i.ready` is the same in a cycle whether the scratchpad grants the last line or not."""
    config = PRESETS["tiny4"]
    dut = LineReader(config)
    ready = []

    async def bench(ctx):
        ctx.set(dut.i.payload, {"addr": 0, "count": 1, "index": 0})
        ctx.set(dut.i.valid, 1)
        for _ in range(8):
            seen = []
            for granted in (1, 0):
                ctx.set(dut.port.request.ready, granted)
                seen.append(ctx.get(dut.i.ready))
            assert seen[0] == seen[1]
            ready.append(seen[0])
            await ctx.tick()
        assert ctx.get(dut.port.request.valid)
        assert ready == [1, 1, 1, 0, 0, 0, 0, 0]

    run(dut, bench)


def test_reader_reads_all_before_a_bad_range_and_nothing_after_it_until_reset():
    config = PRESETS["tiny4"]
    dut = Pair(config)
    reader = dut.readers[0]
    requests, faults = [], []

    async def watch(ctx):
        port = reader.port.request
        while True:
            _, _, asks, addr, fault, index = await ctx.tick().sample(
                port.valid & port.ready, port.payload, reader.fault.valid, reader.fault.payload.index
            )
            requests.extend([addr] if asks else [])
            faults.extend([index] if fault else [])

    async def bench(ctx):
        await feed(ctx, dut.writer.i, [{"addr": n, "data": 50 + n, "index": 0} for n in range(16)])
        ctx.set(reader.i.valid, 1)
        for index, (addr, count) in enumerate([(3, 2), (9, 1), (config.lines - 1, 2), (0, 4)]):
            ctx.set(reader.i.payload, {"addr": addr, "count": count, "index": index})
            await ctx.tick().until(reader.i.ready)
        assert await collect(ctx, reader.o, 3) == [53, 54, 59]
        await ctx.tick().repeat(20)
        assert not ctx.get(reader.i.ready)
        assert requests == [3, 4, 9]
        assert faults == [2]

        ctx.set(reader.i.valid, 0)
        ctx.set(dut.reset, 1)
        await ctx.tick()
        ctx.set(dut.reset, 0)
        assert ctx.get(reader.idle)
        await feed(ctx, reader.i, [{"addr": 5, "count": 3, "index": 7}])
        assert await collect(ctx, reader.o, 3) == [55, 56, 57]
        assert faults == [2]

    run(dut, bench, background=[watch])


@pytest.mark.parametrize("moment", range(12))
def test_reset_in_the_middle_of_a_range(moment):
    """What was asked for before a reset that outlasts the scratchpad's latency never comes out."""
    config = PRESETS["tiny4"]
    dut = Pair(config)
    reader = dut.readers[0]

    async def bench(ctx):
        await feed(ctx, dut.writer.i, [{"addr": n, "data": n, "index": 0} for n in range(40)])
        ctx.set(reader.i.payload, {"addr": 0, "count": 30, "index": 0})
        ctx.set(reader.i.valid, 1)
        await ctx.tick().repeat(1 + moment)
        ctx.set(reader.i.valid, 0)
        ctx.set(dut.reset, 1)
        await ctx.tick().repeat(Scratchpad.latency + 1)
        ctx.set(dut.reset, 0)
        assert ctx.get(reader.idle)
        await feed(ctx, reader.i, [{"addr": 30, "count": 4, "index": 0}])
        assert await collect(ctx, reader.o, 4) == [30, 31, 32, 33]
        assert ctx.get(reader.idle)

    run(dut, bench)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_writer_keeps_lines_and_addresses_together(pattern):
    """Under any backpressure, and in as many cycles as there are lines if there is none."""
    config = PRESETS["tiny4"]
    rng = random.Random(3)
    dut = LineWriter(config)
    lines = [
        {"addr": rng.randrange(config.lines), "data": rng.getrandbits(config.line_bits), "index": n}
        for n in range(200)
    ]

    async def feeding(ctx):
        await feed(ctx, dut.i, lines, Pace("always" if pattern == "always" else "often", 4))

    async def collecting(ctx):
        got = await collect(ctx, dut.port, len(lines), Pace(pattern, 5))
        assert [(line.addr, line.data) for line in got] == [(n["addr"], n["data"]) for n in lines]
        await ctx.tick()
        assert ctx.get(dut.idle)

    run(dut, feeding, collecting, timeout=204 if pattern == "always" else 2000)


def test_writer_faults_and_writes_nothing_outside():
    config = PRESETS["tiny4"]
    dut = Pair(config)

    async def bench(ctx):
        await feed(
            ctx,
            dut.writer.i,
            [{"addr": 0, "data": 1, "index": 1}, {"addr": config.lines, "data": 2, "index": 9}],
        )
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
