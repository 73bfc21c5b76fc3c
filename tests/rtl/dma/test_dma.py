"""Both DMA engines against lists of lines, with a memory that checks every burst."""

import random

import pytest

from bertha.rtl.config import PRESETS
from bertha.rtl.isa import FaultReason, Opcode, semaphore
from tests.rtl.dma.harness import LOAD, STORE, Harness, simulate, transfer
from tests.rtl.streams import PATTERNS

TINY, EDGE = PRESETS["tiny4"], PRESETS["edge8"]
CONFIGS = {
    "tiny4": TINY,
    "edge8": EDGE,
    "edge8-128": EDGE.replace(axi_data_bits=128, burst_beats=1, outstanding_bursts=1),
    "edge8-32": EDGE.replace(
        axi_data_bits=32,
        burst_beats=256,
        outstanding_bursts=3,
        axi_write_cache=0b1111,
        axi_read_cache=0b1010,
        axi_prot=0b011,
    ),
    "tiny4-wide": TINY.replace(axi_addr_bits=64, burst_beats=16, outstanding_bursts=2),
}
OPCODES = (Opcode.LOAD, Opcode.STORE)


def random_transfer(rng, config, opcode, dram_lines, dram_base, first_line, line_count):
    """Fields of a transfer inside a part of DRAM and a part of the scratchpad; no line is written twice."""
    while True:
        rows, lines = rng.choice([(1, rng.randrange(1, 60)), (rng.randrange(1, 6), rng.randrange(1, 12))])
        dram_stride = rng.randrange(0 if opcode is Opcode.LOAD else lines, lines + 40)
        scratchpad_stride = rng.randrange(lines, lines + 9)
        span = (rows - 1) * scratchpad_stride + lines
        dram_span = (rows - 1) * dram_stride + lines
        if span <= line_count and dram_span <= dram_lines:
            break
    return {
        "dram_addr": dram_base + config.line_bytes * rng.randrange(dram_lines - dram_span + 1),
        "scratchpad_addr": first_line + rng.randrange(line_count - span + 1),
        "rows": rows,
        "lines": lines,
        "dram_stride": dram_stride * config.line_bytes,
        "scratchpad_stride": scratchpad_stride,
    }


def run_transfer(config, opcode, fields, lines, dram, base):
    """What a transfer does, on lists of lines."""
    for row in range(fields["rows"]):
        for column in range(fields["lines"]):
            line = fields["scratchpad_addr"] + row * fields["scratchpad_stride"] + column
            addr = fields["dram_addr"] + row * fields["dram_stride"] + column * config.line_bytes
            place = (addr - base) // config.line_bytes
            if opcode is Opcode.LOAD:
                lines[line] = dram[place]
            else:
                dram[place] = lines[line]


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("name", CONFIGS)
def test_random_transfers_side_by_side(name, pattern):
    """Loads and stores on their own halves of DRAM and scratchpad; posts only after the data."""
    config = CONFIGS[name]
    seed = 21
    print("seed", seed)
    rng = random.Random(seed)
    size = 1 << 15
    base = 0xFFFF_FFFF_0000_0000 if config.axi_addr_bits == 64 else 0x1000
    harness = Harness(config, size=size, base=base, pattern=pattern, seed=seed)
    total = size // config.line_bytes
    halves = {Opcode.LOAD: (base, 0), Opcode.STORE: (base + size // 2, 600)}
    lines, dram = list(harness.lines), harness.dram(base, total)
    snapshots = ([], [])
    waits = []
    for index in range(6):
        for opcode in OPCODES:
            dram_base, first_line = halves[opcode]
            fields = random_transfer(rng, config, opcode, total // 2, dram_base, first_line, 600)
            run_transfer(config, opcode, fields, lines, dram, base)
            engine = OPCODES.index(opcode)
            units = {"post1": semaphore(index, 2 + engine)}
            if rng.random() < 0.5:
                units["wait1"] = semaphore(index, 3)
                waits.append((engine, index, 3))
            harness.give(engine, 2 * index + engine, transfer(opcode, **fields, **units))
            part = lines[:600] if opcode is Opcode.LOAD else dram[total // 2 :]
            # Later transfers may have overwritten some of it by then, but only with their own data.
            snapshots[engine].append(part)

    beat_mask = (1 << config.axi_data_bits) - 1
    beats = range(0, config.line_bits, config.axi_data_bits)

    def on_post(engine, number, amount):
        now = harness.lines[:600] if engine == LOAD else harness.dram(base, total)[total // 2 :]
        for place, line in enumerate(now):
            if line == snapshots[engine][number][place]:
                continue
            later = [part[place] for part in snapshots[engine][number:]]
            for low in beats:
                assert line >> low & beat_mask in {value >> low & beat_mask for value in later}

    harness.on_post = on_post

    async def bench(ctx):
        await harness.until_idle(ctx, 50_000)
        assert harness.lines == lines
        assert harness.dram(base, total) == dram
        for engine in (LOAD, STORE):
            posts = [(n, amount) for e, n, amount, _ in harness.posts if e == engine]
            assert posts == [(index, 2 + engine) for index in range(6)]
            assert [w for w in harness.taken if w[0] == engine] == [w for w in waits if w[0] == engine]
        assert not harness.faults

    simulate(harness, bench)


@pytest.mark.parametrize("commands", [1, 8])
@pytest.mark.parametrize("opcodes", [[Opcode.LOAD], [Opcode.STORE], OPCODES])
def test_a_beat_a_cycle_at_a_latency_of_100(opcodes, commands):
    """1024 beats, as one command or as eight, in each direction, alone and together."""
    config = EDGE
    harness = Harness(config, pattern="always", latency=(100, 100))
    lines = 512 // commands

    async def bench(ctx):
        start = harness.cycle
        for opcode in opcodes:
            engine = OPCODES.index(opcode)
            for number in range(commands):
                harness.give(
                    engine,
                    number,
                    transfer(
                        opcode,
                        lines=lines,
                        dram_addr=0x8000 * engine + number * lines * config.line_bytes,
                        scratchpad_addr=1024 * engine + number * lines,
                        post1=semaphore(number),
                    ),
                )
        await harness.until_idle(ctx)
        for opcode in opcodes:
            engine = OPCODES.index(opcode)
            took = [cycle - start for e, _, _, cycle in harness.posts if e == engine]
            assert len(took) == commands
            print(opcode.name, took)
            assert took[-1] <= 1024 + 100 + 30
            assert len(harness.active[engine]) == 1024
            assert harness.active[engine] == sorted(harness.active[engine])

    simulate(harness, bench)


LIMIT = EDGE.lines
FAULTS = [
    ({"lines": 0}, FaultReason.ILLEGAL_COMMAND, 0),
    ({"lines": 1, "rows": 0}, FaultReason.ILLEGAL_COMMAND, 0),
    ({"lines": 1, "dram_addr": 0x2008}, FaultReason.MISALIGNED, 0),
    ({"lines": 1, "rows": 2, "dram_stride": 24}, FaultReason.MISALIGNED, 0),
    ({"lines": 2, "scratchpad_addr": LIMIT - 1}, FaultReason.SCRATCHPAD_RANGE, 0),
    ({"lines": 1, "scratchpad_addr": (1 << 24) - 1}, FaultReason.SCRATCHPAD_RANGE, 0),
    (
        {"lines": 1, "rows": 4, "scratchpad_addr": LIMIT - 9, "scratchpad_stride": 4},
        FaultReason.SCRATCHPAD_RANGE,
        3,
    ),
    ({"lines": 1, "dram_addr": 0x1FF0}, FaultReason.DRAM_WINDOW, 0),
    ({"lines": 1, "dram_addr": 0x4000}, FaultReason.DRAM_WINDOW, 0),
    ({"lines": 40, "dram_addr": 0x4000 - 39 * 16}, FaultReason.DRAM_WINDOW, 39 * 16 // 512 * 32 + 7),
    ({"lines": 1, "rows": 3, "dram_addr": 0x3FE0, "dram_stride": 16}, FaultReason.DRAM_WINDOW, 2),
    ({"lines": 1, "dram_addr": 0x1_0000_2000}, FaultReason.DRAM_WINDOW, 0),
    ({"lines": 1, "dram_addr": (1 << 64) - 16}, FaultReason.DRAM_WINDOW, 0),
    ({"lines": 1, "rows": 2, "dram_addr": 0x3000, "dram_stride": 0xFFFF_F000}, FaultReason.DRAM_WINDOW, 1),
]


@pytest.mark.parametrize("opcode", OPCODES, ids=lambda opcode: opcode.name)
@pytest.mark.parametrize("fields, reason, legal_lines", FAULTS)
def test_bad_commands_fault_and_touch_nothing_outside(opcode, fields, reason, legal_lines):
    harness = Harness(EDGE, size=0x8000, window=(0x2000, 0x4000), latency=(5, 9))
    engine = OPCODES.index(opcode)
    good = {"lines": 3, "dram_addr": 0x2000, "scratchpad_addr": 8, "post1": semaphore(1)}

    async def bench(ctx):
        harness.give(engine, 4, transfer(opcode, **good))
        await harness.until_idle(ctx)
        issued = len(harness.memory.bursts)
        harness.give(engine, 5, transfer(opcode, **{"dram_addr": 0x2000, **fields}))
        harness.give(engine, 6, transfer(opcode, **good))
        await ctx.tick().until(harness.dut.fault[engine].valid)
        await ctx.tick().repeat(60)
        assert harness.faults == [(engine, reason, 5)]
        assert len(harness.posts) == 1
        assert sum(beats for _, beats in harness.memory.bursts[issued:]) <= 2 * legal_lines

        # After an abort it works again.
        harness.dut.set_all(ctx, "abort", 1)
        harness.reset_models()
        await harness.until_idle(ctx)
        harness.dut.set_all(ctx, "abort", 0)
        harness.give(engine, 7, transfer(opcode, **good))
        await harness.until_idle(ctx)
        assert len(harness.posts) == 2 and len(harness.faults) == 1

    simulate(harness, bench, 2_000)


@pytest.mark.parametrize("opcode", OPCODES, ids=lambda opcode: opcode.name)
@pytest.mark.parametrize(
    "window, addr",
    [((0x2001, 0x4000), 0x2000), ((0x2000, 0x3FFF), 0x3FF0), ((0x2000, 0x2000), 0x2000), ((0, 0), 0)],
)
def test_a_window_counts_bytes(opcode, window, addr):
    harness = Harness(EDGE, size=0x8000, window=window)
    engine = OPCODES.index(opcode)

    async def bench(ctx):
        harness.give(engine, 3, transfer(opcode, dram_addr=addr, lines=1))
        await ctx.tick().until(harness.dut.fault[engine].valid)
        await ctx.tick().repeat(20)
        assert harness.faults == [(engine, FaultReason.DRAM_WINDOW, 3)]
        assert not harness.memory.bursts

    simulate(harness, bench, 500)


def test_the_last_byte_of_the_address_space_can_be_in_the_window():
    for config in (EDGE, TINY.replace(axi_addr_bits=64)):
        end = 1 << config.axi_addr_bits
        harness = Harness(config, size=4096, base=end - 4096)

        async def bench(ctx, harness=harness, config=config, end=end):
            count = 2048 // config.line_bytes
            fields = {"lines": count, "dram_addr": end - 2048}
            harness.give(LOAD, 0, transfer(Opcode.LOAD, **fields))
            await harness.until_idle(ctx)
            assert harness.lines[:count] == harness.dram(end - 2048, count)
            # One line more leaves it.
            harness.give(LOAD, 1, transfer(Opcode.LOAD, lines=count + 1, dram_addr=end - 2048))
            await ctx.tick().until(harness.dut.fault[LOAD].valid)
            await ctx.tick().repeat(100)
            assert harness.faults == [(LOAD, FaultReason.DRAM_WINDOW, 1)]

        simulate(harness, bench)


@pytest.mark.parametrize("response, reason", [(2, FaultReason.AXI_SLVERR), (3, FaultReason.AXI_DECERR)])
@pytest.mark.parametrize("opcode", OPCODES, ids=lambda opcode: opcode.name)
@pytest.mark.parametrize("beat", [0, 1])
def test_bus_errors_name_the_command(opcode, response, reason, beat):
    harness = Harness(EDGE, seed=5)
    engine = OPCODES.index(opcode)
    bad_line = 70
    harness.memory.errors[0x1000 + bad_line * EDGE.line_bytes + 8 * beat] = response
    before = list(harness.lines)

    async def bench(ctx):
        for number in range(6):
            harness.give(
                engine,
                number,
                transfer(
                    opcode,
                    lines=20,
                    dram_addr=0x1000 + number * 20 * EDGE.line_bytes,
                    scratchpad_addr=20 * number,
                    post1=semaphore(number),
                ),
            )
        await ctx.tick().until(harness.dut.fault[engine].valid)
        harness.dut.set_all(ctx, "abort", 1)
        harness.reset_models()
        await harness.until_idle(ctx)
        harness.dut.set_all(ctx, "abort", 0)
        assert harness.faults == [(engine, reason, 3)]
        assert {number for _, number, *_ in harness.posts} <= {0, 1, 2}
        if opcode is Opcode.LOAD:
            assert harness.lines[bad_line:] == before[bad_line:]
        await ctx.tick().repeat(20)
        assert len(harness.faults) == 1

    simulate(harness, bench)


@pytest.mark.parametrize("change", [-39, -1, 1, 90])
def test_a_read_burst_of_the_wrong_length_names_the_command(change):
    """Nothing of it is written from where it is wrong, nothing follows, and then the engine works again."""
    harness = Harness(EDGE, seed=5)
    loads = [
        transfer(
            Opcode.LOAD,
            lines=20,  # a burst of 40 beats
            dram_addr=0x1000 + number * 20 * EDGE.line_bytes,
            scratchpad_addr=20 * number,
            post1=semaphore(number),
        )
        for number in range(6)
    ]
    harness.memory.ends[0x1000 + 3 * 20 * EDGE.line_bytes] = change
    right = 60 + (40 + min(change, 0) - 1) // 2  # the last beat before the end is wrong
    before = list(harness.lines)

    async def bench(ctx):
        for number, load in enumerate(loads):
            harness.give(LOAD, number, load)
        await ctx.tick().until(harness.dut.fault[LOAD].valid)
        harness.dut.set_all(ctx, "abort", 1)
        harness.reset_models()
        await harness.until_idle(ctx)
        harness.dut.set_all(ctx, "abort", 0)
        assert harness.faults == [(LOAD, FaultReason.AXI_PROTOCOL, 3)]
        assert {number for _, number, *_ in harness.posts} <= {0, 1, 2}
        dram = harness.dram(0x1000, 120)
        assert all(line in pair for line, *pair in zip(harness.lines[:right], before, dram))
        assert harness.lines[right:] == before[right:]
        harness.memory.ends.clear()
        for number, load in enumerate(loads):
            harness.give(LOAD, number, load)
        await harness.until_idle(ctx)
        assert harness.lines[:120] == dram
        assert len(harness.faults) == 1

    simulate(harness, bench, 4_000)


@pytest.mark.parametrize("after", [3, 25, 71, 230])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_abort_completes_bursts_and_leaves_the_engines_usable(pattern, after):
    config = TINY.replace(axi_data_bits=32)
    harness = Harness(config, pattern=pattern, seed=after, latency=(1, 40))
    total = len(harness.memory.data) // config.line_bytes
    before = harness.dram(0, total)

    async def bench(ctx):
        for number in range(5):
            for engine, opcode in enumerate(OPCODES):
                harness.give(
                    engine,
                    number,
                    transfer(
                        opcode,
                        lines=90,
                        rows=2,
                        dram_addr=0x600 * number + 0x8000 * engine,
                        dram_stride=0x2000,
                        scratchpad_addr=1000 * engine + 100 * number,
                        post0=semaphore(number),
                        post1=semaphore(number),
                    ),
                )
        await ctx.tick().repeat(after)
        harness.dut.set_all(ctx, "abort", 1)
        harness.reset_models()
        await ctx.tick()
        bursts = len(harness.memory.bursts)
        await ctx.tick().repeat(8)
        await harness.until_idle(ctx)
        # At most what was already offered on each address channel is issued still.
        assert len(harness.memory.bursts) <= bursts + 6
        posts = len(harness.posts)
        harness.dut.set_all(ctx, "abort", 0)
        await ctx.tick().repeat(40)
        assert len(harness.posts) == posts and harness.memory.quiet

        # What was written is right, all else untouched.
        now = harness.dram(0, total)
        for number in range(5):
            for row in range(2):
                for column in range(90):
                    place = (0x8000 + 0x600 * number + 0x2000 * row) // config.line_bytes + column
                    new = harness.lines[1000 + 100 * number + column]
                    for low in (0, 32):
                        assert now[place] >> low & 0xFFFF_FFFF in {
                            before[place] >> low & 0xFFFF_FFFF,
                            new >> low & 0xFFFF_FFFF,
                        }
                    before[place] = now[place]
        assert now == before
        # The next program runs.
        lines = list(harness.lines)
        harness.give(LOAD, 1, transfer(Opcode.LOAD, lines=50, dram_addr=0, scratchpad_addr=0))
        harness.give(STORE, 2, transfer(Opcode.STORE, lines=50, dram_addr=0xC000, scratchpad_addr=1000))
        await harness.until_idle(ctx)
        assert harness.lines[:50] == harness.dram(0, 50)
        assert harness.dram(0xC000, 50) == lines[1000:1050]
        assert not harness.faults

    simulate(harness, bench)


@pytest.mark.parametrize("opcode", OPCODES, ids=lambda opcode: opcode.name)
def test_the_last_lines_of_the_scratchpad(opcode):
    harness = Harness(EDGE)
    fields = {"lines": 2, "rows": 3, "scratchpad_addr": LIMIT - 8, "scratchpad_stride": 3}
    lines, dram = list(harness.lines), harness.dram(0, 4096)

    async def bench(ctx):
        fields.update(dram_addr=0x400, dram_stride=64)
        harness.give(OPCODES.index(opcode), 0, transfer(opcode, **fields))
        await harness.until_idle(ctx)
        run_transfer(EDGE, opcode, fields, lines, dram, 0)
        assert harness.lines == lines and harness.dram(0, 4096) == dram
        assert not harness.faults

    simulate(harness, bench)


def test_a_command_waits_while_the_one_before_it_is_at_work():
    harness = Harness(EDGE, pattern="always", latency=(60, 60))
    allowed = []
    harness.grant = lambda *_: bool(allowed)

    async def bench(ctx):
        dut = harness.dut
        harness.give(LOAD, 0, transfer(Opcode.LOAD, lines=4))
        harness.give(LOAD, 1, transfer(Opcode.LOAD, lines=4, scratchpad_addr=9, wait0=semaphore(2, 5)))
        harness.give(LOAD, 2, int(Opcode.LOAD_WAIT) | semaphore(3) << 384)
        await ctx.tick().repeat(30)
        assert ctx.get(dut.waiting[LOAD]) and ctx.get(dut.working[LOAD])
        await ctx.tick().repeat(80)
        assert ctx.get(dut.waiting[LOAD]) and not ctx.get(dut.working[LOAD])
        assert not ctx.get(dut.idle[LOAD]) and ctx.get(dut.control[LOAD].waiting_index) == 1
        allowed.append(True)
        await harness.until_idle(ctx)
        assert harness.taken == [(LOAD, 2, 5), (LOAD, 3, 1)]
        assert harness.lines[9:13] == harness.dram(0, 4)

    simulate(harness, bench)


def test_fetch_and_loads_share_the_bus():
    """A fetch client's address is next on the bus while the load engine asks all the time."""
    harness = Harness(EDGE, pattern="always", latency=(4, 12))
    dut = harness.dut
    fields = {"lines": 1, "rows": 500, "dram_stride": 16, "scratchpad_stride": 1}
    took = []

    async def bench(ctx):
        harness.give(LOAD, 0, transfer(Opcode.LOAD, **fields))
        await ctx.tick().repeat(50)
        ctx.set(dut.fetch.r.ready, 1)
        for number in range(30):
            addr = 0x100 + 64 * number
            await ctx.tick().repeat(number % 11 + 1)
            start = harness.cycle
            ctx.set(dut.fetch.ar.payload, {"addr": addr, "len": 7})
            ctx.set(dut.fetch.ar.valid, 1)
            await ctx.tick().until(dut.fetch.ar.ready)
            ctx.set(dut.fetch.ar.valid, 0)
            await ctx.tick().until(dut.axi.arvalid & dut.axi.arready & (dut.axi.arid == 1))
            took.append(harness.cycle - start)
            got = b""
            while len(got) < 64:
                (data,) = await ctx.tick().sample(dut.fetch.r.payload.data).until(dut.fetch.r.valid)
                got += data.to_bytes(8, "little")
            assert got == bytes(harness.memory.data[addr : addr + 64])
        assert ctx.get(dut.idle[LOAD]) == 0
        print(took)
        assert max(took) <= 3
        await harness.until_idle(ctx)
        assert harness.lines[:500] == harness.dram(0, 500)

    simulate(harness, bench)


@pytest.mark.parametrize("opcode", OPCODES, ids=lambda opcode: opcode.name)
def test_posts_that_are_held_up_are_not_lost(opcode):
    harness = Harness(EDGE, pattern="always")
    engine = OPCODES.index(opcode)
    harness.post_from = 400

    async def bench(ctx):
        for number in range(12):
            harness.give(
                engine,
                number,
                transfer(
                    opcode,
                    lines=1,
                    scratchpad_addr=number,
                    post0=semaphore(number, 1),
                    post1=semaphore(number, 2),
                ),
            )
        await harness.until_idle(ctx)
        assert [post[1:3] for post in harness.posts] == [(n, k) for n in range(12) for k in (1, 2)]

    simulate(harness, bench, 2_000)
