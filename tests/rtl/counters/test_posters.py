"""Posters: who posts to a semaphore, as commands are dispatched."""

import random

from bertha.rtl.counters.posters import Posters
from bertha.rtl.isa import Engine
from tests.rtl.streams import run

ENGINES = [engine for engine in Engine if engine is not Engine.SEQUENCER]


def test_the_last_command_that_posts_counts():
    """One or two posts a command, every other cycle at most; a new program knows of none."""
    semaphores = 9
    dut = Posters(semaphores, 2)
    rng = random.Random(5)
    print("seed 5")

    async def bench(ctx):
        known, coming, free, seen = {}, [], 0, set()
        for cycle in range(3000):
            dispatched = cycle >= free and rng.random() < 0.6
            clear = not coming and not dispatched and rng.random() < 0.05
            ctx.set(dut.dispatched, dispatched)
            ctx.set(dut.clear, clear)
            if dispatched:
                engine, free = rng.choice(ENGINES), cycle + 2
                ctx.set(dut.engine, engine)
                posts = {}
                for name in ("post0", "post1"):
                    enabled, semaphore = rng.random() < 0.6, rng.randrange(semaphores)
                    ctx.set(dut.posts[name].enable, enabled)
                    ctx.set(dut.posts[name].semaphore, semaphore)
                    if enabled:
                        posts[semaphore] = engine
                coming.append((cycle + dut.latency, posts))
            asked = [rng.randrange(semaphores) for _ in dut.semaphore]
            for port, semaphore in zip(dut.semaphore, asked):
                ctx.set(port, semaphore)
            # What comes within the latency may be known already, or not yet.
            open_now = {semaphore for _, posts in coming for semaphore in posts}
            for port, semaphore in zip(dut.poster, asked):
                if semaphore not in open_now:
                    assert ctx.get(port) == known.get(semaphore, Engine.SEQUENCER), (cycle, semaphore)
                    seen.add(known.get(semaphore))
            await ctx.tick()
            while coming and coming[0][0] <= cycle + 1:
                known |= coming.pop(0)[1]
            if clear:
                known = {}
        assert seen == {None, *ENGINES}

    run(dut, bench)
