"""Every wait and post option of a GEMM, on its first and on its later tiles."""

import itertools
import random

import pytest

from bertha.rtl import isa
from bertha.rtl.config import PRESETS
from bertha.rtl.isa import Opcode, Wide
from tests.rtl.gemm.test_gemm import Bench
from tests.rtl.streams import run

OPTIONS = ("wait0", "wait1", "wait1_each", "post0", "post1", "post0_each", "post1_each")
UNITS = {"wait0": (1, 7), "wait1": (2, 9), "post0": (3, 11), "post1": (4, 13)}
K, COUNT = 4, 3
A, B, C, SHIFT = 0, 100, 200, 512
LOW = 50  # lines from a high plane to its low plane


def command(options, wide=Wide.NONE):
    fields = {name: 1 for name in options if name.endswith("_each")}
    fields |= {name: isa.semaphore(*UNITS[name]) for name in options if name in UNITS}
    return int.from_bytes(
        isa.encode(
            Opcode.GEMM,
            a_addr=A,
            a_stride=K // 2,
            b_addr=B,
            b_stride=K // 2,
            c_addr=C,
            c_stride=2,
            columns=4,
            k=K,
            count=COUNT,
            mult=1,
            wide=wide,
            low_offset=LOW,
            **fields,
        ),
        "little",
    )


def expected(options):
    """Units in the order in which each kind must come: waits of each tile, post0s, post1s."""
    waits = [[], [], []]
    if "wait0" in options:
        waits[0].append(UNITS["wait0"])
    for tile in range(COUNT):
        if "wait1" in options and (tile == 0 or "wait1_each" in options):
            waits[tile].append(UNITS["wait1"])
    posts = {}
    for name in ("post0", "post1"):
        last_only = [False] * (COUNT - 1) + [True]
        posts[name] = [name in options and (last or f"{name}_each" in options) for last in last_only]
    return waits, posts


def combinations_of(wide):
    """All combinations of options; of tiles in two passes, those that take and post units of every kind."""
    chosen = [
        [name for name, chosen in zip(OPTIONS, choice) if chosen]
        for choice in itertools.product((0, 1), repeat=len(OPTIONS))
    ]
    return chosen if wide == Wide.NONE else [options for options in chosen if {*UNITS} <= {*options}]


@pytest.mark.parametrize("wide", list(Wide), ids=lambda wide: wide.name)
def test_every_option(wide):
    """A tile reads nothing before its waits are taken, and posts what it must when it must: once, in both passes."""
    seed = 5
    print("seed", seed)
    rng = random.Random(seed)
    dut = Bench(PRESETS["tiny4"], "often", seed)
    control, memory = dut.engine.control, dut.memory
    combinations = combinations_of(wide)
    rng.shuffle(combinations)
    planes = [A, B] + [place + LOW for place, kind in ((A, Wide.A), (B, Wide.B)) if kind == wide]
    events = []  # ("wait", unit) or ("post", unit, lines written, lines read), in order
    for line in range(2000):
        memory.lines[line] = 0

    async def semaphores(ctx):
        delay = 0
        ctx.set(control.post.ready, 1)
        while True:
            asked = ctx.get(control.wait.valid)
            delay = delay - 1 if asked and delay else rng.randrange(12)
            grant = asked and delay == 0
            unit = ctx.get(control.wait.payload)
            read, written = len(memory.read), len(memory.written)
            ctx.set(control.wait.ready, grant)
            if ctx.get(control.post.valid):
                posted = ctx.get(control.post.payload)
                events.append(("post", (posted.semaphore, posted.amount), written, read))
            await ctx.tick()
            if grant:
                events.append(("wait", (unit.semaphore, unit.amount), written, read))

    async def bench(ctx):
        for index, options in enumerate(combinations):
            events.clear()
            memory.read.clear()
            memory.written.clear()
            ctx.set(control.command.payload, {"index": index, "body": command(options, wide)})
            ctx.set(control.command.valid, 1)
            await ctx.tick().until(control.command.ready)
            ctx.set(control.command.valid, 0)
            await dut.until_idle(ctx)
            assert ctx.get(control.waiting) == 0
            waits, posts = expected(options)
            assert [e[1] for e in events if e[0] == "wait"] == sum(waits, []), options
            # Reads of a tile come after the last wait of that tile.
            taken = 0
            for tile, mine in enumerate(waits):
                taken += len(mine)
                if mine:
                    seen = [e for e in events if e[0] == "wait"][taken - 1][3]
                    early = memory.read[:seen]
                    for first in planes:
                        assert first + tile * (K // 2) not in early, options
            for name, flags in posts.items():
                got = [e for e in events if e[0] == "post" and e[1] == UNITS[name]]
                tiles = [tile for tile, flag in enumerate(flags) if flag]
                assert len(got) == len(tiles), (options, name)
                for tile, (_, _, written, read) in zip(tiles, got):
                    last = {first + tile * (K // 2) + K // 2 - 1 for first in planes}
                    assert last <= set(memory.read[:read])
                    assert name == "post0" or written >= 2 * (tile + 1), (options, name)
            assert sum(e[0] == "post" for e in events) == sum(map(sum, posts.values()))

    run(dut, bench, background=[memory.serve, semaphores], timeout=60_000)


def test_the_next_command_takes_nothing_before_the_last_tile():
    """Two commands that want units of one semaphore, the first of them tile by tile."""
    dut = Bench(PRESETS["tiny4"])
    control, memory = dut.engine.control, dut.memory
    for line in range(2000):
        memory.lines[line] = 0
    first = command(["wait1", "wait1_each"])
    second = command(["wait0"]) & ~(0xFFFF << 384) | isa.semaphore(2, 5) << 384
    granted = []

    async def bench(ctx):
        ctx.set(control.post.ready, 1)
        for index, body in enumerate((first, second)):
            ctx.set(control.command.payload, {"index": 40 + index, "body": body})
            ctx.set(control.command.valid, 1)
            await ctx.tick().until(control.command.ready)
            ctx.set(control.command.valid, 0)
        for tile in range(COUNT + 1):
            await ctx.tick().repeat(100)
            # All that could be done is done: the engine waits, with the command that wants the unit.
            assert ctx.get(control.waiting) and not ctx.get(control.working) and not ctx.get(control.idle)
            assert ctx.get(control.waiting_index) == 40 + (tile == COUNT)
            unit = ctx.get(control.wait.payload)
            granted.append((unit.semaphore, unit.amount))
            ctx.set(control.wait.ready, 1)
            await ctx.tick().until(control.wait.valid)
            ctx.set(control.wait.ready, 0)
        assert granted == [(2, 9)] * COUNT + [(2, 5)]
        await ctx.tick().repeat(200)
        assert ctx.get(control.idle) and not ctx.get(control.waiting)

    run(dut, bench, background=[memory.serve], timeout=5_000)
