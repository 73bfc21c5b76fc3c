"""Queue and Register keep every payload, in order, at any pace."""

import random

import pytest

from bertha.rtl.stream import Queue, Register
from tests.rtl.streams import PATTERNS, Pace, collect, feed, run

KINDS = {
    "register": lambda: Register(16),
    "queue of 1": lambda: Queue(16, 1),
    "queue of 3": lambda: Queue(16, 3),
    "queue of 8": lambda: Queue(16, 8),
    "buffered queue of 5": lambda: Queue(16, 5, buffered=True),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("source", PATTERNS)
@pytest.mark.parametrize("sink", PATTERNS)
def test_payloads_pass_in_order(kind, source, sink):
    dut = KINDS[kind]()
    rng = random.Random(3)
    payloads = [rng.randrange(1 << 16) for _ in range(100)]

    async def feeding(ctx):
        await feed(ctx, dut.i, payloads, Pace(source, 1))

    async def collecting(ctx):
        assert await collect(ctx, dut.o, len(payloads), Pace(sink, 2)) == payloads
        await ctx.tick().repeat(3)
        assert not ctx.get(dut.o.valid)

    run(dut, feeding, collecting, timeout=5_000)


@pytest.mark.parametrize("kind", ["register", "queue of 3", "queue of 8", "buffered queue of 5"])
def test_a_payload_a_cycle(kind):
    dut = KINDS[kind]()

    async def feeding(ctx):
        await feed(ctx, dut.i, range(200))

    async def collecting(ctx):
        assert await collect(ctx, dut.o, 200) == list(range(200))

    run(dut, feeding, collecting, timeout=206)


@pytest.mark.parametrize("depth", [0, -1, 1.5, None])
def test_depth_must_be_positive(depth):
    with pytest.raises(ValueError, match="queue depth must be a positive integer, not"):
        Queue(8, depth)
