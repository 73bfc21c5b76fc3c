"""SOFTMAX that keeps the highest scores only, against a model that sorts."""

import random

import pytest

from bertha.rtl.config import PRESETS
from bertha.rtl.isa import FaultReason, Opcode
from bertha.rtl.vector.threshold import ROUNDS, WAIT_CYCLES
from tests.rtl.streams import PATTERNS
from tests.rtl.vector.bench import Bench
from tests.rtl.vector.scenarios import Scenario, random_panel


def scenario(name, pattern="always", seed=0, **changes):
    print(f"seed {seed}")
    config = PRESETS[name].replace(hard_attention=1, **changes)
    return Scenario(Bench(config, pattern=pattern, seed=seed)), random.Random(seed)


def few_values(rng, words, lanes, values):
    return [[rng.choice(values) for _ in range(lanes)] for _ in range(words)]


@pytest.mark.parametrize(
    "name, pattern",
    [
        *(("tiny4", pattern) for pattern in PATTERNS),
        ("edge8", "rarely"),
        ("edge16", "often"),
        ("server32", "always"),
    ],
)
def test_random_scores(name, pattern):
    run, rng = scenario(name, pattern, seed=21)
    run.exp2()
    for width in (700, 60):
        words = 2 * rng.randint(2, 12)
        panel = random_panel(rng, words, run.lanes, -width, width)
        run.softmax(panel, kept=rng.randint(1, words), whole_sum=rng.randrange(2))
    run.run()


def test_every_number_of_kept_keys():
    """From one to all, in rows with many ties, on both sides of where P is 0, some of them masked."""
    run, rng = scenario("tiny4", seed=22)
    run.exp2()
    words = 10
    for kept in range(1, words + 1):
        panel = few_values(rng, words, run.lanes, [0, 0, -1, -63, -575, -576, -1023, -1024, -3000, -32768])
        run.softmax(panel, maxima=[0] * run.lanes, kept=kept, whole_sum=kept % 2)
    run.run()


@pytest.mark.parametrize("whole_sum", [0, 1])
def test_ties_fall_to_the_lower_key(whole_sum):
    run, _ = scenario("tiny4")
    run.exp2()
    run.softmax([[5, -7, 32767, -32767]] * 12, kept=5, whole_sum=whole_sum)
    run.run()
    first = min(run.expected_lines)
    found = [run.bench.memory[first + word // 2] >> 8 * (4 * (word % 2)) & 255 for word in range(12)]
    assert found == [255] * 5 + [0] * 7


def test_extremes():
    run, rng = scenario("tiny4", seed=23)
    lanes = run.lanes
    run.exp2()
    run.softmax([[-32768] * lanes] * 4, kept=1)  # nothing is seen
    run.softmax([[-32768] * lanes, [-32767] * lanes] * 3, kept=5)  # fewer are seen than are kept
    run.softmax([[-32768] * lanes] * 4, maxima=[32767] * lanes, kept=2)
    run.softmax(few_values(rng, 14, lanes, [32767, -32767, -32768]), kept=3)
    run.softmax(random_panel(rng, 8, lanes), maxima=[0] * lanes, kept=2)  # above the maximum: distances wrap
    run.softmax([[k - 40 for _ in range(lanes)] for k in range(40)], kept=40)
    run.softmax([[-k for _ in range(lanes)] for k in range(40)], kept=1)
    run.softmax(random_panel(rng, 6, lanes, -100, 0))  # and again without
    run.softmax(random_panel(rng, 6, lanes, -100, 0), whole_sum=1)
    run.exp2([65535] * 64)  # P is 0 from the same distance on, whatever the table
    run.softmax([[-64 * 9 + k % 3 - 1 for _ in range(lanes)] for k in range(6)], maxima=[0] * lanes, kept=3)
    run.run()


@pytest.mark.parametrize(
    "name, fields",
    [
        ("tiny4", {"words": 4, "kept": 5}),
        ("tiny4", {"words": 2, "kept": 8191}),
        ("without", {"words": 4, "kept": 1}),
        ("without", {"words": 4, "kept": 4096}),
    ],
)
def test_illegal_commands(name, fields):
    run, rng = scenario("tiny4", seed=9)
    run.bench.config = run.bench.config.replace(hard_attention=int(name == "tiny4"))
    run.exp2()
    run.softmax(random_panel(rng, 4, 4))
    reads = 16 + 4
    run.bench.command(Opcode.SOFTMAX, index=0x123456, **fields)
    run.softmax(random_panel(rng, 4, 4))
    run.bench.run(until_fault=True)
    assert run.bench.fault == (FaultReason.ILLEGAL_COMMAND, 0x123456)
    assert run.bench.reads == reads


def test_cycles(capsys):
    """More passes over the row, which the cycle model has to know."""
    taken = {}
    for kept in (0, 30):
        run, rng = scenario("tiny4")
        run.exp2()
        run.softmax(random_panel(rng, 64, run.lanes, -600, 0), kept=kept)
        run.run()
        (start, _), (end, _) = run.bench.events[-2:]
        taken[kept] = end - start
    with capsys.disabled():
        print(f"\ntiny4: cycles from command to post, by kept keys: {taken}")
    assert taken[30] - taken[0] == ROUNDS * (64 + WAIT_CYCLES)
