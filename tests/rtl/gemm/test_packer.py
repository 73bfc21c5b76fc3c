"""The packer alone, its queues as full as the largest array makes them."""

import random

import pytest

from bertha.rtl.config import PRESETS
from bertha.rtl.gemm.packer import QUEUE_DEPTH, ROOM_LATENCY, WORD_LATENCY, Packer
from tests.rtl.streams import run

TILES = 24


@pytest.mark.parametrize("out16", [0, 1])
def test_posts_wait_for_their_lines_only(out16):
    """The first post isn't taken until the packer has stopped; the lines behind it are written by then."""
    config = PRESETS["server32"]
    n = config.array_n
    dut = Packer(config)
    blocked = n * TILES  # cycles; more than the queue of finished tiles has words
    written, posts = [], []

    async def bench(ctx):
        way = [(0, 0)] * WORD_LATENCY
        started = arrived = cycle = 0
        ctx.set(dut.tile.valid, 1)
        ctx.set(dut.port.ready, 1)
        ctx.set(dut.out16, out16)
        ctx.set(dut.flagged, 1 - out16)
        while len(posts) < TILES and cycle < 3 * blocked:
            starts = int(started < n * TILES and ctx.get(dut.has_room))
            started += starts
            way.append((starts, starts and started % n == 0))
            valid, final = way.pop(0)
            tile = arrived // n
            arrived += valid
            ctx.set(dut.valid, valid)
            ctx.set(dut.final, final)
            ctx.set(dut.word, arrived)
            ctx.set(dut.tile.payload.addr, n * tile)
            ctx.set(dut.tile.payload.residue_addr, n * (TILES + tile))
            ctx.set(dut.tile.payload.post1.amount, tile + 1)
            ctx.set(dut.post.ready, cycle >= blocked)
            if cycle == blocked:
                assert QUEUE_DEPTH - ROOM_LATENCY < started // n <= QUEUE_DEPTH
                assert ctx.get(dut.post.valid)
            _, _, puts, addr, posting, amount = await ctx.tick().sample(
                dut.port.valid, dut.port.payload.addr,
                dut.post.valid & dut.post.ready, dut.post.payload.amount,
            )  # fmt: skip
            if posting:
                posts.append((amount, len(written)))
            if puts:
                written.append(addr)
            cycle += 1

    run(dut, bench)
    assert [amount for amount, _ in posts] == list(range(1, TILES + 1))
    assert all(lines >= n * amount for amount, lines in posts)
    if out16:
        assert written == list(range(n * TILES))
    else:
        results = [n * tile + line for tile in range(TILES) for line in range(n // 2)]
        assert [addr for addr in written if addr < n * TILES] == results
        assert [addr - n * TILES for addr in written if addr >= n * TILES] == results


@pytest.mark.parametrize("seed", range(3))
def test_a_post_means_its_own_tiles_lines(seed):
    """While the scratchpad is busy, later tiles' results aren't counted for residues that still wait."""
    print(f"seed {seed}")
    chance = random.Random(seed)
    config = PRESETS["tiny4"]
    n = config.array_n
    dut = Packer(config)
    flags = [[chance.random() < 0.3 for _ in range(n)] for _ in range(60)]
    written, posts = set(), []

    async def bench(ctx):
        way = [None] * WORD_LATENCY
        words = iter([(tile, place) for tile in range(len(flags)) for place in range(n)])
        cycle = tile = 0
        ctx.set(dut.tile.valid, 1)
        ctx.set(dut.post.ready, 1)
        while len(posts) < len(flags):
            assert cycle < 20 * n * len(flags)
            way.append(next(words, None) if ctx.get(dut.has_room) else None)
            word = way.pop(0)
            ctx.set(dut.valid, word is not None)
            ctx.set(dut.port.ready, chance.random() < 0.55)
            if word is not None:
                tile, place = word
                ctx.set(dut.final, place == n - 1)
                ctx.set(dut.flagged, flags[tile][place])
            ctx.set(dut.tile.payload.addr, n * tile)
            ctx.set(dut.tile.payload.residue_addr, n * (len(flags) + tile))
            _, _, puts, addr, posting = await ctx.tick().sample(
                dut.port.valid & dut.port.ready, dut.port.payload.addr, dut.post.valid
            )
            if posting:
                posts.append(set(written))
            if puts:
                written.add(addr)
            cycle += 1

    run(dut, bench)
    for tile, before in enumerate(posts):
        residues = (sum(flags[tile]) + 1) // 2
        own = {n * tile + line for line in range(n // 2)}
        own |= {n * (len(flags) + tile) + line for line in range(residues)}
        assert own <= before, tile
