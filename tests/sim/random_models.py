"""Random models on the simulated chip against the integer model: `python -m tests.sim.random_models --draws 100`.

A draw is a model of any shape (random integers, or a tiny checkpoint of a family through the quantiser), an
accelerator, a packing with its masks, a kind of program and a memory. It is known by its seed and its number.
"""

import argparse
import functools
import random
import secrets
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from bertha.compiler.compile import compile_model
from bertha.compiler.packing import pack_sentences
from bertha.golden.integer_model import run_model, run_sentences
from bertha.golden.model import QuantizedModel
from bertha.models.encoder import load_model
from bertha.quantize.model import quantize_model
from bertha.quantize.quantizer import Settings
from bertha.quantize.recipes import RECIPES
from bertha.rtl.config import Config, preset
from tests.compiler.layers import packed_ranges, random_hard_attention, random_model
from tests.models.checkpoints import CLASSES, tiny_model, write_model
from tests.sim.chip import chip, equal

__all__ = ["CONFIGS", "KEYS", "Draw", "check", "draw", "draw_pruned"]

CONFIGS = {
    "tiny4": preset("tiny4"),
    "small4": Config(array_n=4, scratchpad_bytes=8192, scratchpad_banks=4, row_slots=16),
    "edge8": preset("edge8"),
    "edge16": preset("edge16"),
}
"""Few, since each is built once; the small one makes a plan spill and work in blocks."""

RUNS = 2

FROM_CHECKPOINT = 0.4
"""Odds that a model is a checkpoint, not random integers."""

KEYS, PRUNED_ON = (1, 7, 30, None), ("tiny4", "edge8", "edge16")
"""Of pruned models: numbers of keys, None for as many as there are, and accelerators."""

ACTIVATIONS = ("gelu", "gelu_new", "relu", "silu")


@dataclass(frozen=True)
class Draw:
    """One random case.

    Attributes
    ----------
    what : tuple of str
        Accelerator, model, packing and so on, to be counted.
    config : Config
    model : QuantizedModel
    tokens : int
    runs : list of (int16 [tokens, hidden], int [tokens, 2], bool [tokens] or None)
        Inputs, ranges and key masks of runs of one program.
    alone : list of (int, slice, int16 [s, hidden])
        Run, rows and output of sentences that no mask hides anything from, as the integer model gives them alone.
    static : bool
        Whether the program is compiled for the ranges.
    base : int
    memory : dict
        How it behaves: arguments of `Chip.run`.
    """

    what: tuple
    config: Config
    model: object
    tokens: int
    runs: list
    alone: list
    static: bool
    base: int
    memory: dict = field(repr=False)


def draw(seed, number) -> Draw:
    """Case `number` of the seed."""
    chance = random.Random(f"models {seed} {number}")
    rng = np.random.default_rng(chance.getrandbits(32))
    name = chance.choice(list(CONFIGS))
    origin, model = "random integers", None
    if chance.random() < FROM_CHECKPOINT:
        origin, recipe = chance.choice(list(CLASSES)), chance.choice(RECIPES)
        model = checkpoint(origin, recipe, chance.choice(ACTIVATIONS), chance.choice([1, 2, 4]))
        hard = random.Random(f"hard attention {seed} {number}")
        layers = (replace(layer, **random_hard_attention(hard)) for layer in model.layers)
        model = replace(model, layers=tuple(layers))
    else:
        model = random_model(chance, pruned=random.Random(f"pruned {seed} {number}").random() < 0.3)
    masked = chance.random() < 0.3
    static = chance.random() < 0.5
    kind = chance.choice(["sentences", "ranges"])
    if kind == "sentences":
        tokens, runs, alone = _sentences(chance, rng, model, 1 if static else RUNS)
    else:
        tokens = chance.randint(1, 40)
        ranges = [packed_ranges(chance, tokens) for _ in range(RUNS)]
        runs = [(_sums(model, tokens, rng), ranges[0 if static else run]) for run in range(RUNS)]
        alone = []
    masks = [rng.random(tokens) < 0.8 if masked else None for _ in runs]
    return Draw(
        what=(
            name,
            origin,
            kind,
            "static" if static else "data",
            "key mask" if masked else "no key mask",
            "wide V" if any(layer.value_wide for layer in model.layers) else "int8 V",
            *_special(model, tokens),
        ),
        config=CONFIGS[name],
        model=model,
        tokens=tokens,
        runs=[(x16, ranges, mask) for (x16, ranges), mask in zip(runs, masks, strict=True)],
        alone=[] if masked else alone,
        static=static,
        base=chance.choice([0, 4096, 1 << 20]),
        memory={
            "latency": chance.choice([1, 20, 100]),
            "bandwidth": chance.choice([1.0, 4.0, 8.0, 64.0]),
            "stalls": chance.choice([0, 0, 0.2]),
            "seed": chance.getrandbits(31),
        },
    )


@functools.cache
def checkpoint(family, recipe, activation, heads) -> QuantizedModel:
    """A tiny checkpoint of a family, of random weights, as the quantiser makes it: 20 channels, 2 layers."""
    key = "activation" if family == "distilbert" else "hidden_act"
    count = "n_heads" if family == "distilbert" else "num_attention_heads"
    with tempfile.TemporaryDirectory() as folder:
        folder = write_model(Path(folder), tiny_model(family, **{key: activation, count: heads}))
        # Without a tokenizer, only what isn't trained is calibrated on random tokens.
        encoder = replace(load_model(folder), trained=False)
    return quantize_model(encoder, recipe, Settings(calibration=12, length=12))


def _sums(model, tokens, rng):
    """int16 values [tokens, hidden] as of embeddings; a few of them saturate."""
    return np.clip(
        rng.normal(0, 3000 * 4.0 ** rng.integers(-1, 2), (tokens, model.hidden)), -32768, 32767
    ).astype(np.int16)


def draw_pruned(seed, number, name, keys) -> Draw:
    """A model of the seed whose layers lack heads, neurons, or all of either, with hard attention in every layer.

    `name`: an accelerator's, of `CONFIGS`. `keys`: to how many keys a token attends; None: to as many as there are.
    """
    chance = random.Random(f"pruned models {seed} {number}")
    rng = np.random.default_rng(chance.getrandbits(32))
    model = random_model(chance, pruned=True)
    tokens = chance.randint(31, 40)
    hard = {"attention_keys": keys or tokens, "attention_renormalised": chance.random() < 0.5}
    model = replace(model, layers=tuple(replace(layer, **hard) for layer in model.layers))
    ranges = [np.tile((0, tokens), (tokens, 1)), packed_ranges(chance, tokens)]
    return Draw(
        what=(name, f"{keys or 'all'} keys", *_special(model, tokens)),
        config=CONFIGS[name],
        model=model,
        tokens=tokens,
        runs=[(_sums(model, tokens, rng), of_run, None) for of_run in ranges],
        alone=[],
        static=False,
        base=0,
        memory={},
    )


def _special(model, tokens):
    """What a model's layers have, or lack, that not all have."""
    found = set()
    for layer in model.layers:
        if 0 < layer.attention_keys < tokens and layer.heads:
            found.add("hard attention")
        if not layer.heads:
            found.add("no heads")
        if not layer.ffn:
            found.add("no neurons")
        if not (layer.heads or layer.ffn):
            found.add("neither")
    return sorted(found)


def _sentences(chance, rng, model, most):
    """Tokens of a program, (input, ranges) of its runs, and what each sentence gives alone."""
    tokens = chance.randint(4, 40)
    lengths = [chance.randint(1, chance.choice([3, tokens])) for _ in range(chance.randint(1, 8))]
    packings = pack_sentences(lengths, tokens)[:most]
    rows = [_sums(model, length, rng) for length in lengths]
    outputs = run_sentences(model, rows)
    alone = [
        (run, place, outputs[number])
        for run, packing in enumerate(packings)
        for place, number in zip(packing.places, packing.sentences, strict=True)
    ]
    return tokens, [(packing.gather(rows, model.hidden), packing.ranges) for packing in packings], alone


def check(case) -> int | None:
    """Runs a case on the RTL; the cycles of its last run, None if its model doesn't fit the accelerator.

    Raises
    ------
    AssertionError
        If a byte differs from the integer model's, packed or alone, or one changed that must not.
    """
    try:
        program = compile_model(
            case.model,
            case.config,
            tokens=case.tokens,
            ranges=case.runs[0][1] if case.static else None,
            key_mask=case.runs[0][2] is not None,
            base=case.base,
        )
    except ValueError as error:
        assert "must fit the scratchpad" in str(error) or "row slots" in str(error)
        return None
    inputs = [program.input_pieces(x16=x16, ranges=ranges, key_mask=mask) for x16, ranges, mask in case.runs]
    chip_of_case = chip(case.config)
    results = chip_of_case.run(program, inputs, **case.memory)
    for result, (x16, ranges, mask) in zip(results, case.runs, strict=True):
        assert equal(result, run_model(case.model, x16, ranges, mask)["output16"])
    for run, place, expected in case.alone:
        assert equal(results[run][place], expected)
    return chip_of_case.cycles


def _cases(seed, number, pruned):
    if not pruned:
        return [draw(seed, number)]
    return [draw_pruned(seed, number, name, keys) for name in PRUNED_ON for keys in KEYS]


def main() -> int:
    """Checks many draws; 1 if one fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.random_models", description=__doc__)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="number of the first draw (default: 0)")
    parser.add_argument("--seed", type=int, help="default: a new one")
    parser.add_argument(
        "--pruned",
        action="store_true",
        help=f"of each draw a pruned model, with {', '.join(str(keys or 'all') for keys in KEYS)} keys on each of "
        f"{', '.join(PRUNED_ON)}",
    )
    options = parser.parse_args()
    if options.draws < 1 or options.first < 0:
        parser.error("draws must be at least 1, and first at least 0")
    seed = secrets.randbelow(1 << 31) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    passed, runs, unfit, failed, start = Counter(), 0, 0, 0, time.monotonic()
    for number in range(options.first, options.first + options.draws):
        for case in _cases(seed, number, options.pruned):
            try:
                cycles = check(case)
            except AssertionError as error:
                failed += 1
                print(f"draw {number} of seed {seed} FAILED: {case.what}: {error}", flush=True)
                continue
            if cycles is None:
                unfit += 1
            else:
                runs += 1
                passed.update(case.what)
                print(f"draw {number}: {', '.join(case.what)}: {cycles:,} cycles", flush=True)
    print(", ".join(f"{name} {count}" for name, count in passed.most_common()))
    print(
        f"{runs} cases equal the integer model byte for byte, {failed} don't, {unfit} "
        f"don't fit their accelerator; {time.monotonic() - start:.0f} s, seed {seed}"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
