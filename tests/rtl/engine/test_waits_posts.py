"""Waits and Posts against lists made from the commands' fields."""

import random

import pytest

from bertha.rtl.engine.posts import Posts
from bertha.rtl.engine.waits import Waits
from bertha.rtl.isa import Opcode, encode, semaphore
from tests.rtl.streams import PATTERNS, Pace, collect, feed, run


def command(rng, index):
    opcode = rng.choice([Opcode.LOAD, Opcode.GEMM, Opcode.SOFTMAX, Opcode.GEMM_WAIT, Opcode.VECTOR_WAIT])
    waits = {
        name: semaphore(rng.randrange(32), rng.randrange(1, 256))
        for name in ("wait0", "wait1")
        if rng.random() < 0.6
    }
    return opcode, waits, {"index": index, "body": int.from_bytes(encode(opcode, **waits), "little")}


def units(field):
    return {"semaphore": field >> 8 & 31, "amount": field & 255}


def as_dict(payload):
    return {"semaphore": payload.semaphore, "amount": payload.amount}


@pytest.mark.parametrize("grants", PATTERNS)
@pytest.mark.parametrize("takes", PATTERNS)
def test_waits_are_taken_in_order_and_before_the_command(grants, takes):
    rng = random.Random(3)
    print("seed 3")
    commands = [command(rng, index) for index in range(60)]
    wanted = [units(waits[name]) for _, waits, _ in commands for name in ("wait0", "wait1") if name in waits]
    passed = [c for opcode, _, c in commands if opcode & 0xF != 0xF]
    dut = Waits()
    taken = []

    async def granting(ctx):
        pace = Pace(grants, 1)
        while len(taken) < len(wanted):
            ready = pace.willing()
            ctx.set(dut.wait.ready, ready)
            _, _, valid, payload = await ctx.tick().sample(dut.wait.valid, dut.wait.payload)
            if valid and ready:
                taken.append(as_dict(payload))
        ctx.set(dut.wait.ready, 0)

    async def taking(ctx):
        got = []
        pace = Pace(takes, 2)
        while len(got) < len(passed):
            ready = pace.willing()
            ctx.set(dut.o.ready, ready)
            _, _, valid, payload = await ctx.tick().sample(dut.o.valid, dut.o.payload)
            if valid and ready:
                before = sum(len(w) for _, w, c in commands if c["index"] <= payload.index)
                assert len(taken) == before
                got.append({"index": payload.index, "body": payload.body})
        assert got == passed

    async def feeding(ctx):
        await feed(ctx, dut.i, [c for *_, c in commands], Pace("often", 3))
        assert not ctx.get(dut.waiting)
        assert taken == wanted

    run(dut, granting, taking, feeding)


@pytest.mark.parametrize("idle", PATTERNS)
@pytest.mark.parametrize("takes", PATTERNS)
def test_posts_leave_in_order_and_disabled_ones_are_skipped(idle, takes):
    rng = random.Random(5)
    print("seed 5")
    pairs = [
        [semaphore(rng.randrange(32), rng.randrange(1, 256)) & ~(rng.getrandbits(1) << 15) for _ in "01"]
        for _ in range(60)
    ]
    wanted = [units(field) for pair in pairs for field in pair if field >> 15]
    dut = Posts()

    def fields(value):
        return {"amount": value & 255, "semaphore": value >> 8 & 31, "reserved": 0, "enable": value >> 15}

    async def feeding(ctx):
        payloads = [{"post0": fields(a), "post1": fields(b)} for a, b in pairs]
        await feed(ctx, dut.i, payloads, Pace(idle, 1))

    async def collecting(ctx):
        got = await collect(ctx, dut.o, len(wanted), Pace(takes, 2))
        assert [as_dict(p) for p in got] == wanted
        for _ in range(8):
            await ctx.tick()
        assert ctx.get(dut.idle) and not ctx.get(dut.o.valid)

    run(dut, feeding, collecting)


def test_a_command_without_waits_passes_in_the_same_cycle():
    dut = Waits()

    async def bench(ctx):
        ctx.set(dut.i.payload, {"index": 4, "body": int(Opcode.SOFTMAX)})
        ctx.set(dut.i.valid, 1)
        ctx.set(dut.o.ready, 1)
        assert ctx.get(dut.o.valid) and ctx.get(dut.i.ready) and not ctx.get(dut.wait.valid)

    run(dut, bench)


def test_a_command_in_work_goes_before_the_next_one():
    """With `hold` only `more` is asked for; the command at `i` stays what it is, and `waiting`."""
    dut = Waits()
    waits = {"wait0": semaphore(3, 5), "wait1": semaphore(4, 6)}
    body = int.from_bytes(encode(Opcode.GEMM, **waits), "little")

    async def bench(ctx):
        ctx.set(dut.i.payload, {"index": 4, "body": body})
        ctx.set(dut.i.valid, 1)
        ctx.set(dut.hold, 1)
        await ctx.tick().repeat(2)
        assert ctx.get(dut.waiting) and not ctx.get(dut.wait.valid)
        ctx.set(dut.more.payload, {"semaphore": 7, "amount": 8})
        ctx.set(dut.more.valid, 1)
        ctx.set(dut.wait.ready, 1)
        assert as_dict(ctx.get(dut.wait.payload)) == {"semaphore": 7, "amount": 8}
        assert ctx.get(dut.more.ready)
        await ctx.tick()
        ctx.set(dut.more.valid, 0)
        await ctx.tick()
        ctx.set(dut.hold, 0)
        for name in ("wait0", "wait1"):
            assert ctx.get(dut.wait.valid)
            assert as_dict(ctx.get(dut.wait.payload)) == units(waits[name])
            await ctx.tick()
        assert ctx.get(dut.o.valid) and not ctx.get(dut.waiting)

    run(dut, bench)
