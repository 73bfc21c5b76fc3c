"""CycleCounters with engines that do anything: classes, sums, snapshots, start and stop, root causes."""

import random
from collections import Counter

import pytest

from bertha.rtl.config import PRESETS
from bertha.rtl.counters.classes import CycleClass, count_select, semaphore_class
from bertha.rtl.counters.cycle_counters import CycleCounters
from bertha.rtl.counters.posters import Posters
from bertha.rtl.engine.state import EngineState
from bertha.rtl.isa import Engine
from tests.rtl.streams import run

KINDS = (Engine.LOAD, Engine.GEMM, Engine.VECTOR, Engine.STORE)
POSTER = {3: Engine.LOAD, 7: Engine.VECTOR, 8: Engine.GEMM, 31: Engine.STORE}
"""Semaphores that somebody posts to; nobody does to any other."""


def _class_of(state, waiting, idle, poster, finished):
    """As docs/architecture.md has it."""
    if state != EngineState.NOTHING:
        return CycleClass[state.name]
    if waiting:
        return semaphore_class(poster) if poster else CycleClass.SEMAPHORE_NOBODY
    if not idle:
        return CycleClass.FILLING
    return CycleClass.IDLE if finished else CycleClass.COMMAND


class Bench:
    """Drives everything at random and keeps its own account; `cycles` is what the register has."""

    def __init__(self, ctx, dut, rng):
        self.ctx, self.dut, self.rng = ctx, dut, rng
        self.cycles = 0
        self.before = dict.fromkeys(KINDS, CycleClass.IDLE)  # classes of the cycle before
        self.counts = {kind: Counter() for kind in KINDS}
        self.roots = Counter()
        self.posted = {}
        self.told = None

    async def tick(self, *, start=0, counting=0, snapshot=0):
        """One cycle. What is a cycle old at the ports is chosen a cycle ahead."""
        ctx, dut, rng = self.ctx, self.dut, self.rng
        ctx.set(dut.start, start)
        ctx.set(dut.counting, counting)
        ctx.set(dut.snapshot, snapshot)
        ctx.set(dut.cycles, self.cycles)
        # Of the cycle before, since it is told a cycle later.
        for number, kind in enumerate(KINDS):
            state, waiting, idle, _ = self.told[kind] if self.told else (EngineState.NOTHING, 0, 1, 0)
            ctx.set(dut.state[number], state)
            ctx.set(dut.waiting[number], waiting)
            ctx.set(dut.idle[number], idle)
        finished = rng.random() < 0.3
        ctx.set(dut.finished, finished)
        self.told, classes = {}, {}
        for number, kind in enumerate(KINDS):
            state = rng.choice([EngineState.NOTHING] * 5 + list(EngineState))
            waiting, idle = rng.random() < 0.6, rng.random() < 0.5
            semaphore = rng.choice([*POSTER, 5])
            self.told[kind] = state, waiting, idle, semaphore
            ctx.set(dut.semaphore[number], semaphore)
            poster = self.posted.get(semaphore)
            classes[kind] = _class_of(state, waiting, idle, poster, finished and not start)
        await ctx.tick()
        if counting:
            for kind in KINDS:
                self.counts[kind][self.before[kind]] += 1
            array = self.before[Engine.GEMM]
            if array.name.startswith("SEMAPHORE_") and array is not CycleClass.SEMAPHORE_NOBODY:
                poster = Engine[array.name.removeprefix("SEMAPHORE_")]
                self.roots[poster, self.before[poster]] += 1
            self.cycles += 1
        if start:
            self.cycles = 0
            self.counts = {kind: Counter() for kind in KINDS}
            self.roots = Counter()
        self.before = classes

    async def read(self, select, **signals):
        self.ctx.set(self.dut.select, select)
        for _ in range(3):
            await self.tick(**signals)
        return self.ctx.get(self.dut.count)

    async def learn(self):
        """Commands are dispatched, two posts at a time."""
        ctx, dut = self.ctx, self.dut
        ctx.set(dut.start, 0)
        pairs = [(3, Engine.LOAD, None), (7, Engine.VECTOR, None), (8, Engine.GEMM, None)]
        pairs.append((12, Engine.STORE, 31))
        for post0, engine, post1 in pairs:
            ctx.set(dut.engine, engine)
            for name, semaphore in (("post0", post0), ("post1", post1)):
                enabled = semaphore in POSTER
                ctx.set(dut.posts[name].enable, enabled)
                ctx.set(dut.posts[name].semaphore, semaphore if enabled else 5)
            ctx.set(dut.dispatched, 1)
            await ctx.tick()
            ctx.set(dut.dispatched, 0)
            await ctx.tick()
        await ctx.tick().repeat(Posters.latency)
        self.posted = POSTER

    async def check(self, counts, roots, cycles, **signals):
        """Everything that can be read is as in an account that was kept."""
        for kind in KINDS:
            found = {c: await self.read(count_select(kind, c), **signals) for c in CycleClass}
            assert found == {c: counts[kind][c] for c in CycleClass}, kind
            assert sum(found.values()) == cycles
        for poster in KINDS:
            found = {c: await self.read(count_select(poster, c, root=True), **signals) for c in CycleClass}
            assert found == {c: roots[poster, c] for c in CycleClass}, poster
            assert sum(found.values()) == counts[Engine.GEMM][semaphore_class(poster)]
        for select in (count_select(Engine.SEQUENCER, CycleClass.WORKING), 0x53, 0xD3):
            assert await self.read(select, **signals) == 0
        assert self.ctx.get(self.dut.snapshot_cycles) == cycles


@pytest.mark.parametrize("seed", [1, 2])
def test_every_cycle_is_counted_once(seed):
    dut = CycleCounters(PRESETS["tiny4"], KINDS)
    print("seed", seed)

    async def bench(ctx):
        account = Bench(ctx, dut, random.Random(seed))
        for length in (1, 2, 300):
            await account.tick(start=1)
            # A program starts: nobody posts to anything until commands are dispatched.
            account.posted = {}
            for _ in range(length):
                await account.tick(counting=1)
            await account.tick()
            await account.check(account.counts, account.roots, length)
        # The last program's counts stay until the next one starts.
        await account.check(account.counts, account.roots, 300)
        await account.tick(start=1)
        await account.check(account.counts, account.roots, 0)

    run(dut, bench)


@pytest.mark.parametrize("seed", [3, 4])
def test_posters_roots_and_snapshots_while_counting(seed):
    dut = CycleCounters(PRESETS["tiny4"], KINDS)
    print("seed", seed)

    async def bench(ctx):
        account = Bench(ctx, dut, random.Random(seed))
        await account.tick(start=1)
        await account.learn()  # no cycle of it is counted
        await account.tick()
        for _ in range(4):
            for _ in range(account.rng.randrange(200, 400)):
                await account.tick(counting=1)
            await account.tick(counting=1, snapshot=1)
            counts = {kind: counter.copy() for kind, counter in account.counts.items()}
            roots, cycles = account.roots.copy(), account.cycles
            # While all of it is read, counting goes on.
            await account.check(counts, roots, cycles, counting=1)
        assert any(poster is Engine.VECTOR for poster, _ in account.roots)
        assert account.counts[Engine.GEMM][CycleClass.SEMAPHORE_NOBODY]

    run(dut, bench)
