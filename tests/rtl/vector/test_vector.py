"""The vector engine against the model, at N = 4 and 8."""

import random

import pytest

from bertha.rtl.config import PRESETS
from bertha.rtl.isa import FaultReason, Opcode, semaphore
from tests.rtl.streams import PATTERNS
from tests.rtl.vector import model
from tests.rtl.vector.bench import Bench
from tests.rtl.vector.scenarios import Scenario, random_panel, random_records

BOTH = pytest.mark.parametrize("name", ["tiny4", "edge8"])


def scenario(name, pattern="always", seed=0):
    return Scenario(Bench(PRESETS[name], pattern=pattern, seed=seed)), random.Random(seed)


def realistic_scores(rng, words, lanes):
    return [[int(rng.gauss(0, 200)) for _ in range(lanes)] for _ in range(words)]


@BOTH
@pytest.mark.parametrize("pattern", PATTERNS)
def test_all_commands_one_after_another(name, pattern):
    run, rng = scenario(name, pattern, seed=11)
    lanes = run.lanes
    run.exp2()
    run.softmax(realistic_scores(rng, 38, lanes))
    run.layernorm(random_panel(rng, 26, lanes), random_records(rng, 26), epsilon=1000, in_place=True)
    run.factor_records([(rng.randrange(65536), rng.randrange(64)) for _ in range(lanes)])
    run.range_records([(rng.randrange(65536), rng.randrange(65536)) for _ in range(lanes)])
    run.quantize(random_panel(rng, 30, lanes), random_records(rng, 30), mult_shift=16)
    run.quantize(random_panel(rng, 6, lanes), random_records(rng, 6), mult_shift=16, wide=1)
    run.piecewise([rng.getrandbits(32) for _ in range(256)])
    run.softmax(random_panel(rng, 12, lanes, -32768, -20000))
    run.layernorm(random_panel(rng, 2, lanes), random_records(rng, 2), gamma_shift=0)
    run.layernorm(random_panel(rng, 14, lanes), random_records(rng, 14, residue=1), mult_shift=0)
    run.quantize(random_panel(rng, 2, lanes), random_records(rng, 2, residue=1), residue=0)
    run.layernorm(random_panel(rng, 8, lanes), random_records(rng, 8), mult_shift=14, residue=0, wide=1)
    run.run()
    assert run.bench.semaphores == {1: 13}


@BOTH
@pytest.mark.parametrize("seed", range(6))
def test_random_layernorms(name, seed):
    run, rng = scenario(name, PATTERNS[seed % 3], seed)
    for _ in range(4):
        words = 2 * rng.randint(1, 20)
        width = rng.choice([15, 12, 8, 3])
        run.layernorm(
            random_panel(rng, words, run.lanes, -(1 << width), (1 << width) - 1),
            random_records(rng, words, residue=rng.random()),
            epsilon=rng.choice([0, 1, rng.getrandbits(32)]),
            gamma_shift=rng.choice([0, rng.randint(8, 20), rng.randint(0, 63)]),
            mult_shift=rng.choice([0, rng.randint(8, 20), rng.randint(0, 63)]),
            in_place=rng.random() < 0.5,
            write16=rng.randint(0, 1),
            write8=rng.randint(0, 1),
            residue=rng.randint(0, 1),
            wide=rng.randint(0, 1),
        )
    run.run()


@pytest.mark.parametrize("name", ["edge16", "server32"])
def test_last_line_of_records_is_partly_used(name):
    run, rng = scenario(name, "often", seed=2)
    run.quantize(random_panel(rng, 2, run.lanes), random_records(rng, 2))
    run.layernorm(random_panel(rng, 6, run.lanes), random_records(rng, 6, residue=1))
    run.quantize(random_panel(rng, 10, run.lanes), random_records(rng, 10))
    run.run()


@BOTH
def test_layernorm_extremes(name):
    run, rng = scenario(name, seed=3)
    lanes = run.lanes

    def rows(words, *kinds):
        """A panel whose lanes take turns with functions of the word."""
        return [[kinds[lane % len(kinds)](k) for lane in range(lanes)] for k in range(words)]

    constant = rows(8, lambda k: 5, lambda k: 0, lambda k: 32767, lambda k: -32768)
    spikes = rows(
        16,
        lambda k: 32767 if k == 3 else -32768,
        lambda k: -32768 if k == 3 else 32767,
        lambda k: int(k == 3),
        lambda k: k % 2,
    )
    largest = rows(
        8,
        lambda k: 32767 if k % 2 else -32768,
        lambda k: -32768 if k % 2 else 32767,
        lambda k: -32768 if k else 32767,
        lambda k: 32767 if k else -32768,
    )
    edge = [
        {"gamma": g, "beta": b, "mult": m, "residue": 1}
        for g in (-32768, 32767)
        for b in (-32768, 32767)
        for m in (0, 65535)
    ]
    run.layernorm(constant, random_records(rng, 8))  # V = 0
    run.layernorm(constant, random_records(rng, 8), epsilon=(1 << 32) - 1)
    run.layernorm(spikes, random_records(rng, 16), gamma_shift=15)
    run.layernorm(largest, edge, gamma_shift=0, mult_shift=63)
    run.layernorm(largest, edge, gamma_shift=33, mult_shift=31)
    run.layernorm(largest, edge, gamma_shift=34, mult_shift=32)
    run.layernorm(largest, edge, gamma_shift=63, mult_shift=0)
    run.layernorm(largest, edge, gamma_shift=15, mult_shift=16)
    run.quantize(largest, edge, mult_shift=0)
    run.quantize(largest, edge, mult_shift=31)
    run.run()


@BOTH
def test_z_saturates(name):
    """Statistics of other rows than the panel's, so that z leaves its range on both sides."""
    run, rng = scenario(name, seed=4)
    lanes = run.lanes
    panel = random_panel(rng, 16, lanes)
    records = random_records(rng, 16)
    quiet = model.moments(random_panel(rng, 16, lanes, -2, 2))
    run.layernorm(panel, records, gamma_shift=17)
    slot = run.slot
    run.bench.statistics[slot] = quiet
    run.expected_lines.clear()
    word16, word8, residues = model.layernorm(panel, quiet, records, epsilon=0, gamma_shift=17, mult_shift=12)
    fields = dict(zip(("dst16", "dst8", "residue"), (word16, word8, residues)))
    body = run.bench.commands[-1]["body"]
    for bit, lines in (
        (64, model.panel16(fields["dst16"])),
        (96, model.pack8(fields["dst8"], lanes)),
        (128, model.pack8(fields["residue"], lanes)),
    ):
        run._expect(body >> bit & 0xFFFFFF, lines)
    run.run()


def long_config():
    return PRESETS["tiny4"].replace(scratchpad_bytes=1 << 18)


def test_longest_softmax():
    """4096 equal scores: the sum is 255 * 4096, the largest there is."""
    run = Scenario(Bench(long_config()))
    run.exp2()
    run.softmax([[7, -32767, 32767, 0]] * 4096)
    run.run()
    assert run.bench.factors[run.slot] == [model.softmax_factor(255 * 4096)] * 4
    assert run.bench.cycle < 4096 + 150  # a word a cycle


@pytest.mark.parametrize("kind", ["random", "largest"])
def test_longest_layernorm(kind):
    run, rng = Scenario(Bench(long_config())), random.Random(5)
    if kind == "random":
        panel = random_panel(rng, 4096, 4)
    else:
        panel = [
            [-32768, 32767, -32768 if k % 2 else 32767, rng.choice([-32768, 32767])] for k in range(4096)
        ]
    run.layernorm(panel, random_records(rng, 4096, residue=0), in_place=True, residue=0)
    run.run()
    assert run.bench.cycle < 4096 * 1.5 + 150


@BOTH
def test_softmax_extremes(name):
    run, rng = scenario(name, seed=6)
    lanes = run.lanes
    run.exp2()
    run.softmax([[-32768] * lanes] * 4)  # a row that is masked altogether: no probabilities
    run.softmax([[-32767] * lanes, [-32768] * lanes] * 2)  # one that is as low as scores can be isn't
    run.softmax([[-32768] * lanes] * 4, maxima=[32767] * lanes)  # nothing is left: sum 0
    run.softmax([[32767 if k == 1 else -32768 for _ in range(lanes)] for k in range(6)])
    # every step of the table at every whole part, up to where P is 0
    run.softmax(
        [
            [-(64 * (lanes * part + lane) + k) for lane in range(lanes)]
            for part in range(16 // lanes)
            for k in range(64)
        ],
        maxima=[0] * lanes,
    )
    run.softmax([[-64 * 9 + k % 3 - 1 for _ in range(lanes)] for k in range(6)], maxima=[0] * lanes)
    run.exp2([65535 - 1000 * (k % 3) for k in range(64)])
    run.softmax(random_panel(rng, 10, lanes, -700, 0), maxima=[0] * lanes)
    run.run()
    assert [0, 0] in [list(f) for factors in run.bench.factors.values() for f in factors]


@BOTH
@pytest.mark.parametrize("pattern", ["always", "rarely"])
def test_waits_and_posts(name, pattern):
    run, rng = scenario(name, pattern, seed=8)
    lanes = run.lanes
    run.exp2(post1=0)
    run.quantize(
        random_panel(rng, 4, lanes),
        random_records(rng, 4),
        wait0=semaphore(4, 3),
        wait1=semaphore(5),
        post0=semaphore(6, 2),
        post1=semaphore(7, 200),
    )
    run.bench.command(Opcode.VECTOR_WAIT, wait0=semaphore(6, 2), wait1=semaphore(7, 100))
    run.softmax(random_panel(rng, 4, lanes, -99, 0), wait1=semaphore(7, 100), post0=semaphore(9))
    run.bench.semaphores.update({4: 4, 5: 1})
    run.run()
    assert run.bench.semaphores == {4: 1, 5: 0, 6: 0, 7: 0, 9: 1, 1: 1}


def test_waiting_until_units_arrive():
    run, rng = scenario("tiny4", seed=8)
    run.quantize(random_panel(rng, 4, 4), random_records(rng, 4), wait0=semaphore(4))
    with pytest.raises(TimeoutError):
        run.bench.run(timeout=200)
    assert run.bench.reads == run.bench.writes == 0
    assert run.bench.blocked == (1, 0, 0)


ILLEGAL = [
    (Opcode.SOFTMAX, {"words": 0}),
    (Opcode.SOFTMAX, {"words": 7}),
    (Opcode.SOFTMAX, {"words": 4098}),
    (Opcode.LAYERNORM, {"words": 4097}),
    (Opcode.LAYERNORM, {"words": 0}),
    (Opcode.QUANTIZE, {"words": 1}),
    (Opcode.QUANTIZE, {"words": 65534}),
    (Opcode.SOFTMAX, {"words": 4, "slot": 16}),
    (Opcode.LAYERNORM, {"words": 4, "slot": 255}),
    (Opcode.FACTORS, {"slot": 16}),
    (Opcode.RANGES, {"slot": 16}),
]


@pytest.mark.parametrize("opcode, fields", ILLEGAL)
def test_illegal_commands(opcode, fields):
    run, rng = scenario("tiny4", seed=9)
    assert run.bench.config.row_slots == 16
    run.quantize(random_panel(rng, 4, 4), random_records(rng, 4))
    reads = 4 + 4
    run.bench.command(opcode, index=0x123456, **fields)
    run.quantize(random_panel(rng, 4, 4), random_records(rng, 4))
    run.bench.run(until_fault=True)
    assert run.bench.fault == (FaultReason.ILLEGAL_COMMAND, 0x123456)
    assert run.bench.reads == reads
    assert run.bench.semaphores == {1: 1}


OUTSIDE = [
    (Opcode.SOFTMAX, {"src_addr": 8191}),
    (Opcode.SOFTMAX, {"dst8_addr": 8192}),
    (Opcode.SOFTMAX, {"dst8_addr": 8191, "words": 4}),
    (Opcode.LAYERNORM, {"param_addr": 8191}),
    (Opcode.LAYERNORM, {"dst16_addr": 8191, "write16": 1}),
    (Opcode.QUANTIZE, {"residue_addr": (1 << 24) - 1, "residue": 1}),
    (Opcode.QUANTIZE, {"src_addr": (1 << 24) - 1, "param_addr": (1 << 24) - 1}),
    (Opcode.QUANTIZE, {"residue_addr": 8191, "words": 4, "wide": 1}),
    (Opcode.FACTORS, {"src_addr": 8191}),
    (Opcode.RANGES, {"src_addr": 8191}),
    (Opcode.TABLE, {"src_addr": 8177}),
    (Opcode.TABLE, {"src_addr": 8065, "table": 1}),
]


@pytest.mark.parametrize("opcode, fields", OUTSIDE)
@pytest.mark.parametrize("pattern", ["always", "rarely"])
def test_ranges_outside_the_scratchpad(opcode, fields, pattern):
    run, _ = scenario("tiny4", pattern, seed=10)
    bench = run.bench
    assert bench.config.lines == 8192
    if opcode not in (Opcode.FACTORS, Opcode.RANGES, Opcode.TABLE):
        fields = {"words": 2} | fields
    records = model.norm_lines([{"gamma": 1, "beta": 1, "mult": 9, "residue": 1}] * 4, 4)
    bench.allocate(records)
    bench.command(opcode, index=77, **fields)
    bench.run(until_fault=True)
    assert bench.fault == (FaultReason.SCRATCHPAD_RANGE, 77)
    assert all(addr < 8192 for addr in bench.memory)
    assert bench.semaphores == {}


def test_last_lines_of_the_scratchpad_are_usable():
    run, _ = scenario("tiny4")
    run.bench.command(Opcode.TABLE, src_addr=8192 - 16)
    run.bench.command(Opcode.TABLE, src_addr=8192 - 128, table=1)
    run.bench.command(Opcode.FACTORS, src_addr=8190, slot=15)
    run.bench.command(Opcode.RANGES, src_addr=8190, slot=15)
    run.bench.command(Opcode.SOFTMAX, src_addr=8188, dst8_addr=8190, words=4, slot=15)
    run.bench.run()
    assert run.bench.fault is None and run.bench.semaphores == {1: 5}


@BOTH
def test_cycles(name, capsys):
    """What SOFTMAX of 128 words and LAYERNORM of 384 words take, from command to post."""
    taken = {}
    for kind in ("softmax", "layernorm", "quantize"):
        run, rng = scenario(name)
        run.exp2()
        words = 128 if kind == "softmax" else 384
        panel = realistic_scores(rng, words, run.lanes)
        if kind == "softmax":
            run.softmax(panel)
        elif kind == "layernorm":
            run.layernorm(panel, random_records(rng, words, residue=0))
        else:
            run.quantize(panel, random_records(rng, words, residue=0))
        run.run()
        (start, _), (end, _) = run.bench.events[-2:]
        taken[kind] = end - start
    with capsys.disabled():
        print(f"\n{name}: cycles from command to post: {taken}")
    assert taken["softmax"] <= 128 + 60
    assert taken["layernorm"] <= 384 * 1.5 + 130
    assert taken["quantize"] <= 384 + 40
