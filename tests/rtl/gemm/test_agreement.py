"""Random GEMM commands over every legal encoding: RTL and interpreter (the integer model's arithmetic) agree."""

import random

import pytest

from bertha.rtl.config import PRESETS
from bertha.rtl.isa import COMMANDS, Opcode, Statistics, Wide
from tests.rtl.gemm.test_gemm import RESIDUAL, RESIDUE, A, B, Bench, C
from tests.rtl.interpreted import Interpreted

COMMANDS_EACH = 14
PARAMS, FACTORS, RANGES, SEGMENTS = 5000, 5400, 5450, 5500  # lines
FLAGS = (
    "a_unsigned",
    "piecewise",
    "residual",
    "row_factor",
    "params",
    "uniform",
    "statistics_init",
    "ranges",
)
LOW = 40  # lines from a high plane to its low plane
WIDTHS = {field.name: field.width for field in COMMANDS[Opcode.GEMM]}
EDGES16 = (-32768, -32767, -1, 0, 1, 32766, 32767)


def pick(rng, bits):
    """A number of so many bits: an edge, a small one, or any."""
    top = (1 << bits) - 1
    return rng.choice(
        [0, 1, top, top >> 1, (top >> 1) + 1, rng.randint(0, min(top, 40)), rng.randint(0, top)]
    )


def random_lines(rng, config, count):
    """Lines of 16-bit numbers, many of them at the edges."""
    lines = []
    for _ in range(count):
        numbers = [
            rng.choice([rng.choice(EDGES16), rng.randint(-300, 300), rng.randint(-32768, 32767)])
            for _ in range(config.array_n)
        ]
        lines.append(
            int.from_bytes(b"".join(v.to_bytes(2, "little", signed=True) for v in numbers), "little")
        )
    return lines


def random_ranges(rng, config, fields):
    """Of N rows: whole, empty, around the keys of a command, or any."""
    n, first = config.array_n, fields["first_key"]
    ranges = []
    for _ in range(n):
        near = [min(max(first + rng.randint(-2, 3 * n), 0), 65535) for _ in range(2)]
        ranges.append(
            rng.choice([(0, 0), (0, 65535), near, sorted(near), [rng.randrange(1 << 16) for _ in near]])
        )
    return [tuple(pair) for pair in ranges]


def random_fields(rng, config):
    """A legal command's fields, apart from its places."""
    n = config.array_n
    fields = {name: rng.randrange(2) for name in FLAGS}
    fields |= {name: pick(rng, WIDTHS[name]) for name in ("mult", "shift", "post_shift", "gain")}
    fields |= {
        "statistics": rng.choice(list(Statistics)),
        "columns": rng.choice([n, n, 1, rng.randint(1, n)]),
        "k": rng.choice([2, 4, 2 * n, 34]),
        "count": rng.choice([1, 2, 4]),
        "slot": rng.randrange(3),
        "slot_step": rng.choice([0, 0, 1, 2]),
    }
    kinds = [(1, 0, 0), (0, 0, 0), (0, 1, 0), (0, 1, 0), (0, 0, 1), (0, 1, 1)]
    fields["out16"], fields["residue"], fields["out_wide"] = rng.choice(kinds)
    fields["wide"] = rng.choice([Wide.NONE, Wide.A, Wide.B])
    fields["first_key"] = rng.choice([0, n, 40, 65535 - n, rng.randrange(1 << 16)])
    fields["key_step"] = rng.choice([n, n, 0, (1 << 16) - n, rng.randrange(1 << 16)])
    return fields


@pytest.mark.parametrize("name", ["tiny4", "edge8"])
@pytest.mark.parametrize("seed", range(6))
def test_any_legal_command(name, seed):
    config = PRESETS[name]
    n = config.array_n
    rng = random.Random(seed)
    print(f"seed {seed}")
    dut, interpreted = Bench(config), Interpreted(config)
    places = {
        "a_addr": A, "a_stride": 16, "b_addr": B, "b_stride": 20, "c_addr": C, "c_stride": n,
        "residue_addr": RESIDUE, "residue_stride": n, "residual_addr": RESIDUAL, "residual_stride": n,
        "param_addr": PARAMS, "param_stride": 4,
        "low_offset": LOW,
    }  # fmt: skip

    def put(addr, lines):
        dut.put(addr, lines)
        interpreted.put(addr, lines)

    def put_records(addr, opcode, slot, records):
        content = b"".join(record.to_bytes(4, "little") for record in records)
        half = config.line_bytes
        put(addr, [int.from_bytes(content[i : i + half], "little") for i in (0, half)])
        interpreted.execute(opcode, src_addr=addr, slot=slot)

    async def bench(ctx):
        for index in range(COMMANDS_EACH):
            put(A, random_lines(rng, config, 120))
            put(B, random_lines(rng, config, 120))
            put(RESIDUAL, random_lines(rng, config, 4 * n))
            # Reserved bits of records are anything.
            put(PARAMS, [rng.getrandbits(config.line_bits) for _ in range(16)])
            if index % 4 == 0:
                segments = [(rng.choice(EDGES16), pick(rng, 16) - 32768) for _ in range(256)]
                await dut.load_segments(ctx, segments)
                content = b"".join(v.to_bytes(2, "little", signed=True) for pair in segments for v in pair)
                size = config.line_bytes
                put(
                    SEGMENTS,
                    [int.from_bytes(content[i : i + size], "little") for i in range(0, len(content), size)],
                )
                interpreted.execute(Opcode.TABLE, src_addr=SEGMENTS, table=1)
            fields = random_fields(rng, config)
            for tile in range(fields["count"]):
                slot = fields["slot"] + tile * fields["slot_step"]
                if index == 0 or rng.random() < 0.3:
                    factors = [(pick(rng, 16), pick(rng, 6)) for _ in range(n)]
                    await dut.write_factors(ctx, slot, factors)
                    put_records(
                        FACTORS, Opcode.FACTORS, slot, [mult | shift << 16 for mult, shift in factors]
                    )
                if index == 0 or rng.random() < 0.6:
                    ranges = random_ranges(rng, config, fields)
                    await dut.write_ranges(ctx, slot, ranges)
                    put_records(RANGES, Opcode.RANGES, slot, [first | last << 16 for first, last in ranges])
            await dut.command(ctx, index, **places, **fields)
            await dut.until_idle(ctx)
            interpreted.execute(Opcode.GEMM, **places, **fields)
            assert not interpreted.differences(dut.memory.lines), fields
            for slot in {fields["slot"] + tile * fields["slot_step"] for tile in range(fields["count"])}:
                got = await dut.read_statistics(ctx, slot)
                machine = interpreted.machine
                expected = list(zip(machine.sums[slot].tolist(), machine.squares[slot].tolist()))
                assert got == expected, (slot, fields)

    dut.run(bench, timeout=60_000)


@pytest.mark.parametrize("name", ["tiny4", "edge8"])
@pytest.mark.parametrize("statistics", list(Statistics))
@pytest.mark.parametrize("residual", [0, 1])
def test_only_a_masked_result_is_the_lowest_number_where_the_maximum_is_wanted(name, statistics, residual):
    """Scores that saturate, with every residual: -32768 is a masked one, unless the maximum isn't asked for."""
    config = PRESETS[name]
    n = config.array_n
    dut = Bench(config)
    byte = int.from_bytes(bytes([0x80]) * config.line_bytes, "little")  # -128 throughout
    positive = int.from_bytes(bytes([0x7F]) * config.line_bytes, "little")
    residuals = [-32768, -1, 1, 32767]
    masked = 1 << 58 | 32768 << 32
    plain = 32768 << 32

    async def bench(ctx):
        dut.put(A, [byte])
        dut.put(B, [positive])
        dut.put(
            RESIDUAL, [int.from_bytes((r & 0xFFFF).to_bytes(2, "little") * n, "little") for r in residuals]
        )
        records = [masked if column == 3 else plain for column in range(n)]
        per_line = config.line_bits // 64
        dut.put(
            PARAMS,
            [
                sum(record << 64 * place for place, record in enumerate(records[at : at + per_line]))
                for at in range(0, n, per_line)
            ],
        )
        await dut.command(
            ctx, 0, a_addr=A, b_addr=B, c_addr=C, residual_addr=RESIDUAL, param_addr=PARAMS, k=2, columns=4,
            count=1, out16=1, params=1, residual=residual, statistics=statistics, statistics_init=1,
        )  # fmt: skip
        await dut.until_idle(ctx)
        got = []
        for line in (dut.memory.lines[C + column] for column in range(4)):
            values = {line >> 16 * lane & 0xFFFF for lane in range(n)}
            assert len(values) == 1
            got.append((values.pop() ^ 0x8000) - 0x8000)
        lowest = -32767 if statistics == Statistics.MAX else -32768
        after = [lowest, lowest, -32767, -32768] if residual else [lowest] * 3 + [-32768]
        assert got == after
        if statistics == Statistics.MAX:
            assert (await dut.read_statistics(ctx, 0))[0][0] == -32767

    dut.run(bench)
