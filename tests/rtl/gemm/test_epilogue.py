"""What the epilogue does at full speed, and while nothing can leave it."""

import random

import pytest

from bertha.rtl.config import PRESETS
from tests.rtl.gemm.model import gemm_tile
from tests.rtl.gemm.test_gemm import (
    PARAMS,
    RESIDUAL,
    RESIDUE,
    A,
    B,
    Bench,
    C,
    random_record,
    random_rows,
    record_bytes,
)
from tests.rtl.panels import lines_of_bytes, panel8_lines, panel16_lines, read8, read16

READ_PORTS = 4


class WritesBlocked:
    """A pace of the scratchpad that grants every read, and writes from cycle `until` on."""

    def __init__(self, until):
        self._asked = 0
        self._until = until

    def willing(self):
        cycle, port = divmod(self._asked, READ_PORTS + 1)
        self._asked += 1
        return port < READ_PORTS or cycle >= self._until


class WritesStalled:
    """A pace of the scratchpad that grants every read, and writes in runs of cycles between long stalls."""

    def __init__(self, seed):
        print(f"seed {seed}")
        self._random = random.Random(seed)
        self._asked = 0
        self._left = 0
        self._granting = True

    def willing(self):
        self._asked += 1
        if self._asked % (READ_PORTS + 1):
            return True
        if not self._left:
            self._granting = not self._granting
            self._left = self._random.randint(1, 30 if self._granting else 120)
        self._left -= 1
        return self._granting


@pytest.mark.parametrize("name, one_column", [("tiny4", 1), ("tiny4", 0), ("edge8", 0)])
@pytest.mark.parametrize("out16", [0, 1])
def test_no_word_is_lost_between_long_stalls(name, out16, one_column):
    """Words that wait rush to the packer, and the scratchpad stops while they do.

    With one column every word is a tile of its own, with a line or two.
    """
    config = PRESETS[name]
    n = config.array_n
    columns = 1 if one_column else n
    count, k = 240 // columns, n
    rng = random.Random(5)
    print("seed 5")
    dut = Bench(config, pace=WritesStalled(7 + out16))
    a = random_rows(rng, n, k, -128, 127)
    panels = [random_rows(rng, n, k, -128, 127) for _ in range(8)]
    records = [{**random_record(rng), "residue": 1, "mask": 0} for _ in range(n)]
    dut.put(A, panel8_lines(a, n))
    for number, b in enumerate(panels):
        dut.put(B + 16 * number, panel8_lines(b, n))
    dut.put(PARAMS, lines_of_bytes(b"".join(map(record_bytes, records)), config.line_bytes))

    async def bench(ctx):
        for first in range(0, count, len(panels)):
            await dut.command(
                ctx, 0, a_addr=A, b_addr=B, b_stride=16, c_addr=C + columns * first,
                c_stride=columns, residue_addr=RESIDUE + columns * first, residue_stride=columns,
                param_addr=PARAMS, columns=columns, k=k, count=min(len(panels), count - first),
                params=1, out16=out16, residue=1 - out16,
            )  # fmt: skip
        await dut.until_idle(ctx)
        expected = [gemm_tile(a, b, columns=columns, records=records) for b in panels]
        for tile in range(count):
            word16, word8, residue8 = expected[tile % len(panels)]
            c_addr, residue_addr = C + columns * tile, RESIDUE + columns * tile
            if out16:
                assert read16(dut.memory.lines, c_addr, columns, n) == word16
            else:
                assert read8(dut.memory.lines, c_addr, columns, n) == word8
                assert read8(dut.memory.lines, residue_addr, columns, n) == residue8
        lines = columns if out16 else 2 * ((columns + 1) // 2)
        assert len(dut.memory.written) == count * lines

    dut.run(bench, timeout=10_000)


@pytest.mark.parametrize("name", ["tiny4", "edge8"])
@pytest.mark.parametrize("out16", [0, 1])
@pytest.mark.parametrize("with_residual", [0, 1])
def test_no_word_is_lost_while_the_scratchpad_takes_none(name, out16, with_residual):
    """All words of the tiles that fit wait in the engine; every column has a residue word as well."""
    config = PRESETS[name]
    n = config.array_n
    count, k = 12, n
    rng = random.Random(out16)
    print(f"seed {out16}")
    dut = Bench(config, pace=WritesBlocked(600))
    a, b = random_rows(rng, n, k, -128, 127), random_rows(rng, n, k, -128, 127)
    records = [{**random_record(rng), "residue": 1, "mask": 0} for _ in range(n)]
    residuals = [random_rows(rng, n, n, -32768, 32767) for _ in range(count)]
    dut.put(A, panel8_lines(a, n))
    dut.put(B, panel8_lines(b, n))
    dut.put(PARAMS, lines_of_bytes(b"".join(map(record_bytes, records)), config.line_bytes))
    for tile, residual in enumerate(residuals):
        dut.put(RESIDUAL + n * tile, panel16_lines(residual, n))

    async def bench(ctx):
        await dut.command(
            ctx, 0, a_addr=A, b_addr=B, c_addr=C, c_stride=n, residue_addr=RESIDUE,
            residue_stride=n, residual_addr=RESIDUAL, residual_stride=n, param_addr=PARAMS,
            columns=n, k=k, count=count, params=1, out16=out16, residue=1 - out16,
            residual=with_residual,
        )  # fmt: skip
        await ctx.tick().repeat(500)
        assert not dut.memory.written
        await dut.until_idle(ctx)
        for tile in range(count):
            word16, word8, residue8 = gemm_tile(
                a, b, columns=n, records=records,
                residual=residuals[tile] if with_residual else None,
            )  # fmt: skip
            if out16:
                assert read16(dut.memory.lines, C + n * tile, n, n) == word16
            else:
                assert read8(dut.memory.lines, C + n * tile, n, n) == word8
                assert read8(dut.memory.lines, RESIDUE + n * tile, n, n) == residue8

    dut.run(bench, timeout=10_000)


@pytest.mark.parametrize("name", ["tiny4", "edge8"])
@pytest.mark.parametrize("kind", ["max", "moments"])
def test_statistics_continue_between_tiles_without_a_bubble(name, kind):
    """K = N: a tile's first word comes right behind the last one of the tile before."""
    config = PRESETS[name]
    n = config.array_n
    count = 6
    rng = random.Random(3)
    print("seed 3")
    dut = Bench(config)
    a = random_rows(rng, n, n, -128, 127)
    panels = [random_rows(rng, n, n, -128, 127) for _ in range(count)]
    dut.put(A, panel8_lines(a, n))
    for tile, b in enumerate(panels):
        dut.put(B + 16 * tile, panel8_lines(b, n))

    async def bench(ctx):
        for first, tiles in ((0, 1), (1, count - 1)):
            await dut.command(
                ctx, 0, a_addr=A, b_addr=B + 16 * first, b_stride=16, c_addr=C, c_stride=n,
                columns=n, k=n, count=tiles, mult=1, shift=4, out16=1, slot=2,
                statistics={"max": 1, "moments": 2}[kind], statistics_init=1 - first,
            )  # fmt: skip
        await dut.until_idle(ctx)
        statistics = [[-32768 if kind == "max" else 0, 0, kind] for _ in range(n)]
        for b in panels:
            gemm_tile(a, b, columns=n, mult=1, shift=4, statistics=statistics)
        got = await dut.read_statistics(ctx, 2)
        if kind == "max":
            assert [g[0] for g in got] == [s[0] for s in statistics]
        else:
            assert got == [(s[0], s[1]) for s in statistics]

    dut.run(bench)
