"""CommandQueue by itself."""

import random

import pytest

from bertha.rtl.config import PRESETS
from bertha.rtl.engine.command_queue import CommandQueue
from bertha.rtl.engine.table import ENGINES
from bertha.rtl.isa import COMMAND_BITS, Opcode, reserved_mask
from tests.rtl.streams import PATTERNS, Pace, collect, feed, run


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_bit_of_a_legal_command_survives_its_queue(engine, pattern):
    rng = random.Random(2)
    print("seed 2")
    mine = [opcode for opcode in Opcode if opcode.engine == engine]
    commands = []
    for index in range(30):
        opcode = mine[index % len(mine)]
        body = rng.getrandbits(COMMAND_BITS) & ~reserved_mask(opcode) & ~0xFF | opcode
        commands.append((rng.getrandbits(24), body))
    dut = CommandQueue(PRESETS["tiny4"], engine)

    async def feeding(ctx):
        await feed(ctx, dut.i, [{"index": i, "body": b} for i, b in commands], Pace(pattern, 1))

    async def collecting(ctx):
        got = await collect(ctx, dut.o, len(commands), Pace("often", 2))
        assert [(c.index, c.body) for c in got] == commands
        await ctx.tick()
        assert not ctx.get(dut.o.valid)

    run(dut, feeding, collecting)
