"""The whole GEMM engine against the plain model: random commands, random scratchpad grants."""

import random

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring

from bertha.rtl import isa
from bertha.rtl.config import PRESETS
from bertha.rtl.gemm.gemm import GemmEngine
from bertha.rtl.isa import FaultReason, Opcode
from bertha.rtl.row_slots import RowSlots
from tests.rtl.gemm.model import gemm_tile
from tests.rtl.interpreted import Interpreted
from tests.rtl.panels import lines_of_bytes, panel8_lines, panel16_lines, read8, read16
from tests.rtl.scratchpad_model import ScratchpadModel
from tests.rtl.streams import PATTERNS, Pace, feed, run

A, B, C, RESIDUE, RESIDUAL, PARAMS = 0, 1000, 2000, 3000, 4000, 5000


class Bench(wiring.Component):
    """The engine with its row slots, and test benches that drive them."""

    def __init__(self, config, pattern="always", seed=0, *, pace=None):
        super().__init__({})
        self.config = config
        self.engine = GemmEngine(config)
        self.slots = RowSlots(config)
        engine = self.engine
        self.memory = ScratchpadModel(
            config,
            reads=[engine.a, engine.b, engine.residual, engine.params],
            writes=[engine.write],
            pace=pace or Pace(pattern, seed),
        )
        self.posts = []
        self.cycle = 0

    def elaborate(self, platform):
        m = Module()
        m.submodules.engine = engine = self.engine
        m.submodules.slots = slots = self.slots
        wiring.connect(m, engine.factor_read, slots.factor_read)
        wiring.connect(m, engine.range_read, slots.range_read)
        wiring.connect(m, engine.statistics_continue, slots.statistics_continue)
        wiring.connect(m, engine.statistics_write, slots.statistics_write)
        return m

    async def semaphores(self, ctx):
        """Background: grants every wait, notes every post with the lines written and read by then."""
        engine = self.engine.control
        ctx.set(engine.wait.ready, 1)
        ctx.set(engine.post.ready, 1)
        while True:
            _, _, valid, semaphore, amount = await ctx.tick().sample(
                engine.post.valid, engine.post.payload.semaphore, engine.post.payload.amount
            )
            if valid:
                self.posts.append((semaphore, amount, len(self.memory.written), len(self.memory.read)))

    async def count_cycles(self, ctx):
        while True:
            await ctx.tick()
            self.cycle += 1

    async def load_segments(self, ctx, segments):
        for index, (base, slope) in enumerate(segments):
            ctx.set(self.engine.table.enable, 1)
            ctx.set(self.engine.table.index, index)
            ctx.set(self.engine.table.data, base & 0xFFFF | (slope & 0xFFFF) << 16)
            await ctx.tick()
        ctx.set(self.engine.table.enable, 0)

    async def write_factors(self, ctx, slot, factors):
        port = self.slots.factor_write
        ctx.set(port.slot, slot)
        for lane, (mult, shift) in enumerate(factors):
            ctx.set(port.lanes[lane].mult, mult)
            ctx.set(port.lanes[lane].shift, shift)
        ctx.set(port.enable, 1)
        await ctx.tick()
        ctx.set(port.enable, 0)

    async def write_ranges(self, ctx, slot, ranges):
        port = self.slots.range_write
        ctx.set(port.slot, slot)
        for lane, (first, last) in enumerate(ranges):
            ctx.set(port.lanes[lane], {"first": first, "last": last})
        ctx.set(port.enable, 1)
        await ctx.tick()
        ctx.set(port.enable, 0)

    async def read_statistics(self, ctx, slot):
        port = self.slots.statistics_read
        ctx.set(port.slot, slot)
        await ctx.tick().repeat(2)
        return [
            (ctx.get(port.lanes[lane].sum), ctx.get(port.lanes[lane].squares))
            for lane in range(self.config.array_n)
        ]

    def put(self, addr, lines):
        for offset, line in enumerate(lines):
            self.memory.lines[addr + offset] = line

    async def command(self, ctx, index, **fields):
        body = int.from_bytes(isa.encode(Opcode.GEMM, **fields), "little")
        await feed(ctx, self.engine.control.command, [{"index": index, "body": body}])

    async def until_idle(self, ctx):
        await ctx.tick().repeat(3)
        while not ctx.get(self.engine.control.idle):
            await ctx.tick()

    def run(self, bench, **options):
        run(
            self,
            bench,
            timeout=options.get("timeout", 40_000),
            background=[self.memory.serve, self.semaphores, self.count_cycles],
        )


def random_record(rng):
    return {
        "bias": rng.randrange(-(1 << 31), 1 << 31) if rng.random() < 0.1 else rng.randrange(-20000, 20000),
        "mult": rng.randrange(1 << 16),
        "shift": rng.choice([0, 1, 7, 15, 18, 22, 24, 33, 48, 63]),
        "post_shift": rng.choice([0, 0, 1, 4, 9, 15]),
        "mask": int(rng.random() < 0.2),
        "residue": int(rng.random() < 0.5),
    }


def record_bytes(record):
    word = (
        record["bias"] & 0xFFFFFFFF
        | record["mult"] << 32
        | record["shift"] << 48
        | record["post_shift"] << 54
        | record["mask"] << 58
        | record["residue"] << 59
    )
    return word.to_bytes(8, "little")


def random_rows(rng, n, words, low, high):
    return [[rng.randint(low, high) for _ in range(words)] for _ in range(n)]


@pytest.mark.parametrize("name", ["tiny4", "edge8"])
@pytest.mark.parametrize("seed", range(8))
def test_random_commands(name, seed):
    config = PRESETS[name]
    n = config.array_n
    rng = random.Random(seed)
    print(f"seed {seed}")
    dut = Bench(config, PATTERNS[seed % 3], seed)
    segments = [(rng.randrange(-32768, 32768), rng.randrange(-32768, 32768)) for _ in range(256)]
    statistics = {}

    async def bench(ctx):
        await dut.load_segments(ctx, segments)
        for index in range(4):
            k = rng.choice([2, 2, 4, n, n + 2, 2 * n, 30])
            count = rng.choice([1, 2, 3])
            columns = rng.choice([n, n, 1, n - 1])
            flags = {
                name: int(rng.random() < 0.5)
                for name in (
                    "a_unsigned",
                    "piecewise",
                    "residual",
                    "row_factor",
                    "params",
                    "uniform",
                    "out16",
                    "residue",
                )
            }
            if flags["out16"]:
                flags["residue"] = 0
            kind = rng.choice([None, "max", "moments"])
            slot, slot_step = rng.randrange(4), rng.choice([0, 1])
            init = 1 if index == 0 or kind != statistics.get("kind") else rng.randrange(2)
            if slot not in statistics or slot_step:
                init = 1
            statistics["kind"] = kind
            post_shift, gain = rng.choice([0, 3, 15]), rng.choice([0, 2, 15])
            mult, shift = rng.randrange(1 << 16), rng.choice([0, 8, 20])
            low, high = (0, 255) if flags["a_unsigned"] else (-128, 127)
            tiles = []
            factors = {}
            for tile in range(count):
                a = random_rows(rng, n, k, low, high)
                b = random_rows(rng, n, k, -128, 127)
                residual = random_rows(rng, n, columns, -32768, 32767)
                records = [random_record(rng) for _ in range(n)]
                tiles.append((a, b, residual, records))
                dut.put(A + 16 * tile, panel8_lines(a, n))
                dut.put(B + 16 * tile, panel8_lines(b, n))
                dut.put(RESIDUAL + n * tile, panel16_lines(residual, n))
                dut.put(
                    PARAMS + 4 * tile,
                    lines_of_bytes(b"".join(record_bytes(r) for r in records), config.line_bytes),
                )
                where = slot + slot_step * tile
                if where not in factors:
                    factors[where] = [
                        (rng.randrange(1 << 16), rng.choice([0, 1, 9, 20, 35])) for _ in range(n)
                    ]
                    await dut.write_factors(ctx, where, factors[where])
            dut.posts.clear()
            written = len(dut.memory.written)
            dut.memory.read.clear()
            await dut.command(
                ctx,
                index,
                **flags,
                statistics={None: 0, "max": 1, "moments": 2}[kind],
                statistics_init=init,
                post0_each=1,
                post1_each=1,
                a_addr=A,
                a_stride=16,
                b_addr=B,
                b_stride=16,
                c_addr=C,
                c_stride=n,
                residue_addr=RESIDUE,
                residue_stride=n,
                residual_addr=RESIDUAL,
                residual_stride=n,
                param_addr=PARAMS,
                param_stride=4,
                columns=columns,
                slot=slot,
                slot_step=slot_step,
                shift=shift,
                mult=mult,
                post_shift=post_shift,
                gain=gain,
                k=k,
                count=count,
                post0=isa.semaphore(3, 2),
                post1=isa.semaphore(4, 5),
            )
            await dut.until_idle(ctx)
            lines = 0
            ends = []
            for tile, (a, b, residual, records) in enumerate(tiles):
                where = slot + slot_step * tile
                running = statistics.get(where)
                if kind and (init or running is None):
                    running = [[-32768 if kind == "max" else 0, 0, kind] for _ in range(n)]
                word16, word8, residue8 = gemm_tile(
                    a,
                    b,
                    columns=columns,
                    records=records if flags["params"] else None,
                    uniform=flags["uniform"],
                    mult=mult,
                    shift=shift,
                    post_shift=post_shift,
                    factors=factors[where] if flags["row_factor"] else None,
                    gain=gain,
                    segments=segments if flags["piecewise"] else None,
                    residual=residual if flags["residual"] else None,
                    statistics=running if kind else None,
                )
                if kind:
                    statistics[where] = running
                memory = dut.memory.lines
                if flags["out16"]:
                    assert read16(memory, C + n * tile, columns, n) == word16
                    lines += columns
                else:
                    assert read8(memory, C + n * tile, columns, n) == word8
                    lines += (columns + 1) // 2
                    if columns % 2:
                        assert memory[C + n * tile + columns // 2] >> 8 * n == 0
                if flags["residue"] and flags["params"]:
                    flagged = [c for c in range(columns) if records[c]["residue"]]
                    got = read8(memory, RESIDUE + n * tile, len(flagged), n)
                    assert got == [[row[c] for c in flagged] for row in residue8]
                    lines += (len(flagged) + 1) // 2
                ends.append(lines)
            assert len(dut.memory.written) - written == lines
            if kind:
                for where in {slot + slot_step * tile for tile in range(count)}:
                    got = await dut.read_statistics(ctx, where)
                    if kind == "max":
                        assert [g[0] for g in got] == [s[0] for s in statistics[where]]
                    else:
                        assert got == [(s[0], s[1]) for s in statistics[where]]
            operands = [p for p in dut.posts if p[0] == 3]
            results = [p for p in dut.posts if p[0] == 4]
            assert [p[1] for p in operands] == [2] * count
            assert [p[1] for p in results] == [5] * count
            for tile, post in enumerate(operands):
                read = set(dut.memory.read[: post[3]])
                assert {A + 16 * tile + line for line in range(k // 2)} <= read
                assert {B + 16 * tile + line for line in range(k // 2)} <= read
                if flags["params"]:
                    assert {PARAMS + 4 * tile + line for line in range(4)} <= read
            for post, end in zip(results, ends):
                assert post[2] - written >= end, "posted before the tile's last line was written"

    dut.run(bench)


@pytest.mark.parametrize("name, k", [("tiny4", 4), ("tiny4", 8), ("edge8", 8), ("edge8", 32)])
@pytest.mark.parametrize("out16", [0, 1])
def test_tiles_follow_without_a_bubble(name, k, out16):
    """Between the first and the last step of many tiles, every cycle feeds the array."""
    config = PRESETS[name]
    n = config.array_n
    count = 64
    dut = Bench(config)
    active = []

    async def watch(ctx):
        while True:
            _, _, is_active = await ctx.tick().sample(dut.engine.control.active)
            active.append(is_active)

    async def bench(ctx):
        rng = random.Random(1)
        dut.put(A, panel8_lines(random_rows(rng, n, k, -128, 127), n))
        for tile in range(2):
            dut.put(B + 16 * tile, panel8_lines(random_rows(rng, n, k, -128, 127), n))
        for _ in range(2):
            await dut.command(
                ctx,
                0,
                a_addr=A,
                b_addr=B,
                b_stride=0,
                c_addr=C,
                c_stride=n,
                columns=n,
                k=k,
                count=count // 2,
                mult=1,
                shift=3,
                out16=out16,
                statistics=1,
                statistics_init=1,
            )
        await dut.until_idle(ctx)
        first = active.index(1)
        last = len(active) - 1 - active[::-1].index(1)
        assert sum(active) == k * count
        print(f"{last - first + 1} cycles for {k * count} steps")
        assert last - first + 1 == k * count

    run(dut, bench, background=[dut.memory.serve, dut.semaphores, watch], timeout=20_000)


@pytest.mark.parametrize(
    "fields",
    [
        {"k": 3},
        {"k": 0},
        {"columns": 0},
        {"columns": 9},
        {"count": 0},
        {"statistics": 3},
        {"slot": 200, "row_factor": 1},
        {"slot": 31, "slot_step": 1, "statistics": 1},
        {"slot": 32, "ranges": 1},
        {"out16": 1, "residue": 1},
        {"out16": 1, "out_wide": 1},
        {"wide": 3},
    ],
)
def test_illegal_commands(fields):
    config = PRESETS["edge8"]
    check_fault(config, FaultReason.ILLEGAL_COMMAND, fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"a_addr": 16383},
        {"b_addr": 1 << 23},
        {"wide": 1, "low_offset": 16384 - 3},
        {"wide": 2, "low_offset": 16384 - 3},
        {"out_wide": 1, "residue_addr": 16384 - 3},
        {"c_addr": 16384 - 3},
        {"residual": 1, "residual_addr": 16380},
        {"params": 1, "param_addr": 16381},
    ],
)
def test_addresses_outside_of_the_scratchpad(fields):
    check_fault(PRESETS["edge8"], FaultReason.SCRATCHPAD_RANGE, fields)


def test_masks_and_residues_come_with_column_records_only():
    """What the records of tiles before say has no part in a tile without records: all queues have held such ones."""
    config = PRESETS["tiny4"]
    n = config.array_n
    dut = Bench(config)
    record = {"bias": 0, "mult": 1, "shift": 0, "post_shift": 0, "mask": 1, "residue": 1}
    dut.put(A, [0x7F7F7F7F7F7F7F7F])
    dut.put(B, [0x7F7F7F7F7F7F7F7F])
    dut.put(PARAMS, lines_of_bytes(record_bytes(record) * n, config.line_bytes))
    fields = {"a_addr": A, "b_addr": B, "param_addr": PARAMS, "columns": n, "k": 2, "residue": 1}

    async def bench(ctx):
        await dut.command(ctx, 0, **fields, count=6, params=1, c_addr=C, residue_addr=RESIDUE)
        await dut.command(ctx, 1, **fields, count=1, mult=1, c_addr=C + n, residue_addr=RESIDUE + n)
        await dut.until_idle(ctx)

    dut.run(bench, timeout=2000)
    assert read8(dut.memory.lines, C, n, n) == [[-128] * n] * n
    assert read8(dut.memory.lines, C + n, n, n) == [[127] * n] * n
    assert {addr for addr in dut.memory.written if addr >= RESIDUE} == {RESIDUE, RESIDUE + 1}


@pytest.mark.parametrize("c_addr", [(1 << 23) - 3, (1 << 24) - 3])
def test_results_that_leave_the_largest_scratchpad_do_not_wrap(c_addr):
    """Half of all addresses are outside of it: the line that would wrap comes long after the fault."""
    config = PRESETS["edge8"].replace(scratchpad_bytes=16 << 23)
    written = check_fault(config, FaultReason.SCRATCHPAD_RANGE, {"c_addr": c_addr})
    assert written == [addr for addr in range(c_addr, c_addr + 3) if addr < config.lines]


def test_addresses_of_tiles_have_24_bits():
    """Only what is read or written has to be inside: the first tile has no residues, the second one's wrap."""
    config = PRESETS["tiny4"]
    n = config.array_n
    dut, interpreted = Bench(config), Interpreted(config)
    plain, flagged = [record_bytes({**random_record(random.Random(1)), "residue": flag}) for flag in (0, 1)]
    records = lines_of_bytes(plain * n + flagged * n, config.line_bytes)
    fields = {
        "a_addr": A, "b_addr": B, "c_addr": C, "c_stride": n, "param_addr": PARAMS, "param_stride": 4,
        "residue_addr": (1 << 24) - 100, "residue_stride": 100 + RESIDUE, "residue": 1, "params": 1,
        "columns": n, "k": 2, "count": 2,
    }  # fmt: skip
    for addr, lines in ((A, [0x11223344]), (B, [0x55667788]), (PARAMS, records)):
        dut.put(addr, lines)
        interpreted.put(addr, lines)

    async def bench(ctx):
        await dut.command(ctx, 0, **fields)
        await dut.until_idle(ctx)

    dut.run(bench, timeout=2000)
    interpreted.execute(Opcode.GEMM, **fields)
    assert not interpreted.differences(dut.memory.lines)
    assert {RESIDUE, RESIDUE + 1} <= set(dut.memory.written)


def check_fault(config, reason, fields):
    n = config.array_n
    dut = Bench(config)
    for addr in (A, B):
        dut.put(addr, panel8_lines([[1] * 8] * n, n))
    dut.put(PARAMS, [0] * 4)
    dut.put(RESIDUAL, [0] * n)

    async def bench(ctx):
        command = {
            "k": 8,
            "columns": n,
            "count": 2,
            "a_addr": A,
            "b_addr": B,
            "c_addr": C,
            "c_stride": n,
            "param_addr": PARAMS,
            "residual_addr": RESIDUAL,
            "mult": 1,
        }
        await dut.command(ctx, 77, **{**command, **fields})
        for _ in range(500):
            if ctx.get(dut.engine.control.fault.valid):
                break
            await ctx.tick()
        assert ctx.get(dut.engine.control.fault.payload.reason) == reason
        assert ctx.get(dut.engine.control.fault.payload.index) == 77
        await ctx.tick().repeat(100)
        assert all(addr < config.lines for addr in dut.memory.written)

    run(dut, bench, background=[dut.memory.serve, dut.semaphores], timeout=3_000)
    return dut.memory.written
