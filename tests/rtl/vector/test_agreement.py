"""Random vector commands over every legal encoding: RTL and interpreter (the integer model's arithmetic) agree."""

import random

import pytest

from bertha.rtl.config import PRESETS
from bertha.rtl.isa import Opcode
from tests.rtl.gemm.test_agreement import pick, random_lines
from tests.rtl.interpreted import Interpreted
from tests.rtl.streams import PATTERNS
from tests.rtl.vector.bench import Bench

COMMANDS_EACH = 10


def random_slot(rng, lanes):
    """Statistics of any kind: a maximum of any scores, or moments of any row."""
    sums = [(rng.randint(-(1 << 27), (1 << 27) - 1), pick(rng, 43)) for _ in range(lanes)]
    maxima = [(pick(rng, 16) - 32768, pick(rng, 20)) for _ in range(lanes)]
    return [rng.choice(pair) for pair in zip(sums, maxima)]


def random_command(rng, bench, slot):
    """Opcode and fields, with fresh places in the bench's memory."""
    config = bench.config
    opcode = rng.choice([Opcode.SOFTMAX, Opcode.SOFTMAX, Opcode.LAYERNORM, Opcode.LAYERNORM, Opcode.QUANTIZE])
    words = 2 * rng.choice([1, 2, rng.randint(1, 20)])
    fields = {"words": words, "src_addr": bench.allocate(random_lines(rng, config, words))}
    if opcode != Opcode.QUANTIZE:
        fields["slot"] = slot
    fields["dst8_addr"] = bench.allocate([0] * (words // 2))
    if opcode == Opcode.SOFTMAX:
        kept = rng.choice([0, rng.randint(1, words)]) if config.hard_attention else 0
        return opcode, fields | {"kept": kept, "whole_sum": rng.randrange(2)}
    records = [rng.getrandbits(config.line_bits) for _ in range(-(-8 * words // config.line_bytes))]
    fields |= {
        "param_addr": bench.allocate(records),
        "residue_addr": bench.allocate([0] * words),
        "residue": rng.randrange(2),
        "wide": rng.randrange(2),
        "mult_shift": pick(rng, 6),
    }
    if opcode == Opcode.LAYERNORM:
        fields |= {
            "dst16_addr": rng.choice([fields["src_addr"], bench.allocate([0] * words)]),
            "gamma_shift": pick(rng, 6),
            "epsilon": pick(rng, 32),
            "write16": rng.randrange(2),
            "write8": rng.randrange(2),
        }
    return opcode, fields


@pytest.mark.parametrize("name", ["tiny4", "edge8"])
@pytest.mark.parametrize("seed", range(8))
def test_any_legal_command(name, seed):
    config = PRESETS[name]
    rng = random.Random(seed)
    print(f"seed {seed}")
    bench, interpreted = Bench(config, pattern=PATTERNS[seed % 3], seed=seed), Interpreted(config)
    machine = interpreted.machine
    # Entries of 65408 and more round to 256 and are limited to 255.
    entry = rng.choice([lambda: pick(rng, 16), lambda: rng.randint(65300, 65535)])
    table = b"".join(entry().to_bytes(2, "little") for _ in range(64))
    size = config.line_bytes
    lines = [int.from_bytes(table[i : i + size], "little") for i in range(0, len(table), size)]
    commands = [(Opcode.TABLE, {"src_addr": bench.allocate(lines)})]
    for slot in range(COMMANDS_EACH):
        commands.append(random_command(rng, bench, slot))
        bench.statistics[slot] = random_slot(rng, config.array_n)
    for slot, statistics in bench.statistics.items():
        for lane, (total, squares) in enumerate(statistics):
            machine.sums[slot][lane], machine.squares[slot][lane] = total, squares
    for opcode in (Opcode.FACTORS, Opcode.RANGES, Opcode.FACTORS, Opcode.RANGES):
        slot = config.row_slots - 1 - rng.randrange(2)
        commands.append((opcode, {"slot": slot, "src_addr": bench.allocate(random_lines(rng, config, 2))}))
    for addr, line in bench.memory.items():
        interpreted.put(addr, [line])
    for opcode, fields in commands:
        bench.command(opcode, **fields)
        interpreted.execute(opcode, **fields)
    bench.run()
    assert not interpreted.differences(bench.memory), commands
    assert bench.ranges
    for slot, ranges in bench.ranges.items():
        assert ranges == list(zip(machine.firsts[slot].tolist(), machine.lasts[slot].tolist())), slot
    for slot, factors in bench.factors.items():
        expected = list(zip(machine.mults[slot].tolist(), machine.shifts[slot].tolist()))
        assert factors == expected, slot


def test_a_row_above_its_maximum_wraps():
    """A stale maximum: the distance has 16 bits, so most scores above it get 0 and the farthest 255 again."""
    config = PRESETS["tiny4"]
    bench, interpreted = Bench(config), Interpreted(config)
    table = b"".join(round(65280 * 2 ** (-f / 64)).to_bytes(2, "little") for f in range(64))
    size = config.line_bytes
    exp2 = bench.allocate([int.from_bytes(table[i : i + size], "little") for i in range(0, len(table), size)])
    scores = [-32767, 1, 2, 32767, 0, -1]
    src = bench.allocate([int.from_bytes((s & 0xFFFF).to_bytes(2, "little") * 4, "little") for s in scores])
    dst = bench.allocate([0] * 3)
    for addr, line in bench.memory.items():
        interpreted.put(addr, [line])
    bench.statistics[3] = [(0, 0), (-32768, 0), (1, 0), (-(1 << 27), 0)]
    interpreted.machine.sums[3] = [0, -32768, 1, -(1 << 27)]
    for opcode, fields in (
        (Opcode.TABLE, {"src_addr": exp2}),
        (Opcode.SOFTMAX, {"src_addr": src, "dst8_addr": dst, "words": 6, "slot": 3}),
    ):
        bench.command(opcode, **fields)
        interpreted.execute(opcode, **fields)
    bench.run()
    assert not interpreted.differences(bench.memory)
    lanes = [
        [bench.memory[dst + word // 2] >> 8 * (4 * (word % 2) + lane) & 255 for word in range(6)]
        for lane in range(4)
    ]
    assert lanes[0] == [0, 0, 0, 0, 255, round(255 * 2 ** (-1 / 64))]
    # The lowest maximum there is: 32767 is 65535 above it, which wraps to 1; the one of lane 3 has 16 zero bits.
    assert lanes[1] == [0, 0, 0, round(255 * 2 ** (-1 / 64)), 0, 0]
    assert lanes[3] == lanes[0]
