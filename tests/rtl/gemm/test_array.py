"""The array alone: random tiles with gaps, drained a column a cycle at the stated latency."""

import random

import pytest

from bertha.rtl.gemm.array import SystolicArray
from tests.rtl.streams import run


@pytest.mark.parametrize("n", [4, 8])
@pytest.mark.parametrize("chance", [1.0, 0.6])
def test_tiles(n, chance):
    seed = 21
    print(f"seed {seed}")
    rng = random.Random(seed)
    dut = SystolicArray(n)
    tiles = [(rng.choice([1, 2, n, n + 3, 3 * n]), rng.randrange(2)) for _ in range(12)]
    expected, ends, drained = [], [], []

    async def feeding(ctx):
        cycle = 0
        last_end = -n
        for k, a_unsigned in tiles:
            sums = [[0] * n for _ in range(n)]
            for step in range(k):
                last = step == k - 1
                while rng.random() > chance or (last and cycle - last_end < n):
                    ctx.set(dut.i.step.valid, 0)
                    await ctx.tick()
                    cycle += 1
                a = [rng.randrange(256) for _ in range(n)]
                b = [rng.randrange(256) for _ in range(n)]
                ctx.set(dut.i.step, {"valid": 1, "first": step == 0, "last": last, "a_unsigned": a_unsigned})
                ctx.set(dut.i.a, int.from_bytes(bytes(a), "little"))
                ctx.set(dut.i.b, int.from_bytes(bytes(b), "little"))
                for r in range(n):
                    x = a[r] if a_unsigned or a[r] < 128 else a[r] - 256
                    for c in range(n):
                        sums[r][c] += x * (b[c] if b[c] < 128 else b[c] - 256)
                if last:
                    last_end = cycle
                    ends.append(last_end)
                    expected.extend([sums[r][c] for r in range(n)] for c in range(n))
                await ctx.tick()
                cycle += 1
        ctx.set(dut.i.step.valid, 0)
        await ctx.tick().repeat(2 * n + 10)

    async def watch(ctx):
        cycle = 0
        while True:
            _, _, valid, word = await ctx.tick().sample(dut.o.valid, dut.o.word)
            if valid:
                drained.append((cycle, [int(word[r]) for r in range(n)]))
            cycle += 1

    run(dut, feeding, background=[watch])
    assert [word for _, word in drained] == expected
    assert [at for at, _ in drained] == [
        end + SystolicArray.latency + column for end in ends for column in range(n)
    ]
