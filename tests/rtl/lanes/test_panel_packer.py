"""Panels of random words against lists."""

import random

import pytest

from bertha.rtl.config import PRESETS
from bertha.rtl.lanes.panel_packer import PanelPacker
from tests.rtl.streams import run


@pytest.mark.parametrize("name", ["tiny4", "edge8"])
def test_panels(name):
    """8-bit panels with words that don't belong to them, 16-bit panels, one after another."""
    config = PRESETS[name]
    half = config.line_bits // 2
    rng = random.Random(4)
    print("seed 4")
    dut = PanelPacker(config, lines=32)

    async def bench(ctx):
        for _ in range(150):
            base, wide = rng.choice([0, rng.randrange((1 << 24) - 32)]), rng.randrange(2)
            share = rng.choice([0, 0.5, 1])
            words = [(rng.getrandbits(2 * half), rng.random() < share) for _ in range(rng.randint(1, 32))]
            belonging = [word for word, wanted in words if wanted]
            if wide:
                expected = belonging
            else:
                low = [word % (1 << half) for word in belonging] + [0]
                expected = [low[at] | low[at + 1] << half for at in range(0, len(belonging), 2)]
            ctx.set(dut.base, base)
            ctx.set(dut.wide, wide)
            lines = []
            for number, (word, wanted) in enumerate(words):
                ctx.set(dut.word, word)
                ctx.set(dut.wanted, wanted)
                ctx.set(dut.final, number == len(words) - 1)
                for enable in rng.choice([[1], [0, 1], [0, 0, 1]]):  # it may wait, with the line at hand
                    ctx.set(dut.enable, enable)
                    await ctx.delay(1e-9)
                    if ctx.get(dut.complete) and enable:
                        lines.append((ctx.get(dut.addr), ctx.get(dut.line)))
                    await ctx.tick()
                ctx.set(dut.enable, 0)
            assert lines == list(enumerate(expected, base))

    run(dut, bench)
