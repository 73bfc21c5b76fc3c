"""Row statistics with their slots: every way in which a tile can hand its sums over to a later one."""

import itertools
import random

import pytest
from amaranth.hdl import Module, ResetInserter, Signal
from amaranth.lib import wiring

from bertha.rtl.config import PRESETS
from bertha.rtl.gemm.statistics import RowStatistics
from bertha.rtl.isa import Statistics
from bertha.rtl.row_slots import RowSlots
from tests.rtl.streams import run

CONFIG = PRESETS["tiny4"]
N = CONFIG.array_n
NONE, MAX, MOMENTS = Statistics.NONE, Statistics.MAX, Statistics.MOMENTS


class Bench(wiring.Component):
    """Tiles in, slots out."""

    def __init__(self):
        super().__init__({})
        self.unit = RowStatistics(CONFIG)
        self.slots = RowSlots(CONFIG)
        self.reset = Signal()

    def elaborate(self, platform):
        m = Module()
        m.submodules.unit = ResetInserter(self.reset)(self.unit)
        m.submodules.slots = self.slots
        wiring.connect(m, self.unit.carry_on, self.slots.statistics_continue)
        wiring.connect(m, self.unit.write, self.slots.statistics_write)
        return m

    async def feed(self, ctx, tiles):
        """Tiles are (slot, kind, init, words, pauses): a list of N numbers a word, idle cycles before each.

        First words come N cycles apart, as in the engine: the columns that don't count take their time.
        """
        unit = self.unit
        word, since_first = None, N

        async def cycle(valid, values=None):
            nonlocal word, since_first
            ctx.set(unit.valid, valid)
            for lane in range(N):
                ctx.set(unit.i[lane], word[lane] if word else random.getrandbits(15))
            await ctx.tick()
            word = values
            since_first += 1

        for slot, kind, init, words, pauses in tiles:
            while since_first < N:
                await cycle(0)
            for number, (values, pause) in enumerate(zip(words, pauses, strict=True)):
                for _ in range(pause):
                    await cycle(0)
                if number == 0:
                    since_first = 0
                ctx.set(unit.slot, slot)
                ctx.set(unit.kind, kind)
                ctx.set(unit.init, init)
                ctx.set(unit.first, number == 0)
                ctx.set(unit.final, number == len(words) - 1)
                await cycle(1, values)
        for _ in range(unit.latency + 2):
            await cycle(0)

    async def read(self, ctx, slot):
        port = self.slots.statistics_read
        ctx.set(port.slot, slot)
        await ctx.tick().repeat(2)
        return [(ctx.get(port.lanes[lane].sum), ctx.get(port.lanes[lane].squares)) for lane in range(N)]


def wrap(value, bits):
    return (value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def expected_slots(tiles):
    """Slot to (sum or maximum, squares) of each lane, in plain integers."""
    slots = {}
    for slot, kind, init, words, _ in tiles:
        if kind == NONE:
            continue
        before = [(-32768 if kind == MAX else 0, 0)] * N if init else slots[slot]
        after = []
        for lane, (total, squares) in enumerate(before):
            values = [word[lane] for word in words]
            if kind == MAX:
                total = max(wrap(total, 16), *values)
            else:
                total = wrap(total + sum(values), 28)
            after.append((total, (squares + sum(v * v for v in values)) % (1 << 43)))
        slots[slot] = after
    return slots


def check(tiles):
    dut = Bench()

    async def bench(ctx):
        await dut.feed(ctx, tiles)
        for slot, expected in expected_slots(tiles).items():
            assert await dut.read(ctx, slot) == expected, slot

    run(dut, bench, timeout=200_000)


def random_words(rng, count):
    pick = rng.choice([lambda: rng.randint(-32768, 32767), lambda: rng.choice([-32768, -32767, 0, 32767])])
    return [[pick() for _ in range(N)] for _ in range(count)]


@pytest.mark.parametrize("kind", [MAX, MOMENTS])
def test_every_hand_over(kind):
    """First tile, what lies between, and the tile that continues: all gaps, lengths and slots between."""
    seed = 3
    print(f"seed {seed}")
    rng = random.Random(seed)
    tiles = []
    # Every slot has statistics, so that continuing the wrong one shows.
    for slot in range(CONFIG.row_slots):
        tiles.append((slot, MOMENTS, 1, random_words(rng, 2), [0, 0]))
    for number, (first, last, gap, between, init) in enumerate(
        itertools.product([1, N], [1, N], [0, 1, 2, 3], ["nothing", "other", "same", "none", "two"], [0, 1])
    ):
        slot = number % 5
        other = 5 + number % 7

        def tile(where, what, anew, count, gap=0):
            return (where, what, anew, random_words(rng, count), [gap] + [0] * (count - 1))

        tiles.append(tile(slot, kind, 1, first))
        tiles += {
            "nothing": [],
            "other": [tile(other, kind, 0, 1, gap)],
            "same": [tile(slot, kind, 0, 1, gap)],
            "none": [tile(other, NONE, 1, 1, gap)],
            "two": [tile(other, kind, 0, 1, gap), tile(other + 1, kind, 1, 1)],
        }[between]
        tiles.append(tile(slot, kind, init, last, gap))
    check(tiles)


@pytest.mark.parametrize("seed", range(4))
def test_random_tiles(seed):
    """Kinds mixed in a slot too: a maximum goes on with the low 16 bits of a sum."""
    print(f"seed {seed}")
    rng = random.Random(seed)
    tiles, known = [], set()
    for _ in range(300):
        slot, kind = rng.randrange(3), rng.choice([MAX, MOMENTS, MOMENTS, NONE])
        init = int(slot not in known or rng.random() < 0.3)
        if kind != NONE:
            known.add(slot)
        count = rng.choice([1, 1, N, rng.randint(1, N)])
        pauses = [rng.choice([0, 0, 0, 1, 2, 3]) for _ in range(count)]
        tiles.append((slot, kind, init, random_words(rng, count), pauses))
    check(tiles)


def test_sums_of_4096_words_and_beyond():
    """The moments of the longest row fit; what is beyond wraps."""
    words = [[-32768, 32767, -32768, 1]] * N
    tiles = [(1, MOMENTS, int(number == 0), words, [0] * N) for number in range(4096 // N)]
    assert expected_slots(tiles)[1][0] == (-(1 << 27), 1 << 42)
    tiles += [(2, MOMENTS, int(number == 0), words, [0] * N) for number in range(8200 // N)]
    assert expected_slots(tiles)[2][0] == (-(1 << 27) + (4096 - 8) * 32768, 8 << 30)
    check(tiles)


def test_nothing_is_at_hand_after_a_reset():
    """The slot that a reset leaves in the register isn't the one whose sums are at hand."""
    dut = Bench()

    async def bench(ctx):
        await dut.feed(ctx, [(0, MOMENTS, 1, [[3] * N], [0]), (1, MOMENTS, 1, [[100] * N], [0])])
        ctx.set(dut.reset, 1)
        await ctx.tick()
        ctx.set(dut.reset, 0)
        # A tile without statistics writes nothing.
        await dut.feed(ctx, [(5, NONE, 0, [[9] * N], [0]), (0, MOMENTS, 0, [[4] * N], [0])])
        assert await dut.read(ctx, 0) == [(7, 25)] * N

    run(dut, bench)
