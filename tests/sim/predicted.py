"""Predicted cycles against those of the RTL, on random cases: `python -m tests.sim.predicted --cases 40`.

A case is a whole model of random shape and recipe, an accelerator, a length, a packing and a memory. It is known by its
seed and its number.
"""

import argparse
import random
import secrets
import sys
import time
from dataclasses import dataclass, field

import numpy as np

from bertha.compiler.compile import compile_model
from bertha.compiler.operations import kind_of
from bertha.compiler.placeholder import RECIPES, operand_plan, placeholder_model
from bertha.compiler.predict import Timing, predict
from bertha.models.shapes import ModelShape
from bertha.rtl.config import Config, preset
from tests.compiler.layers import packed_ranges, random_model
from tests.sim.chip import chip

__all__ = ["CONFIGS", "MOST_OFF", "MOST_OFF_OPERATION", "Case", "Comparison", "compare", "draw"]

CONFIGS = {
    "tiny4": preset("tiny4"),
    "small4": Config(array_n=4, scratchpad_bytes=8192, scratchpad_banks=4, row_slots=16),
    "narrow8": Config(
        array_n=8,
        scratchpad_bytes=1 << 16,
        scratchpad_banks=4,
        axi_data_bits=32,
        row_slots=32,
        burst_beats=32,
        outstanding_bursts=4,
        queue_depth=4,
    ),
    "edge8": preset("edge8"),
    "edge16": preset("edge16"),
}
"""Few, since each is built once; the second makes plans spill and work in blocks."""

MOST_OFF = 0.005
MOST_OFF_OPERATION = 0.03
"""How far a prediction may be off, of the cycles in all, and of each operation's that has more than `SHARE` of them."""
SHARE = 0.01


@dataclass(frozen=True)
class Case:
    """One random case.

    Attributes
    ----------
    what : str
    config : Config
    model : QuantizedModel
    tokens : int
    ranges : int [tokens, 2] or None
        What the program is compiled for.
    latency : int
    bandwidth : float
    """

    what: str
    config: Config
    model: object = field(repr=False)
    tokens: int
    ranges: object
    latency: int
    bandwidth: float


@dataclass(frozen=True)
class Comparison:
    """A case's cycles in RTL and predicted, and those of each operation: (kind, engine) to busy cycles."""

    measured: int
    predicted: int
    operations: dict
    predicted_operations: dict

    @property
    def off(self) -> float:
        """The prediction's error, as a part."""
        return self.predicted / self.measured - 1

    @property
    def operations_off(self) -> dict:
        """Of each operation that counts."""
        return {
            key: self.predicted_operations.get(key, 0) / busy - 1
            for key, busy in self.operations.items()
            if busy > SHARE * self.measured
        }

    @property
    def is_close(self) -> bool:
        """Whether it is as close as it must be."""
        worst = max(map(abs, self.operations_off.values()), default=0)
        return abs(self.off) <= MOST_OFF and worst <= MOST_OFF_OPERATION


def draw(seed, number, names=tuple(CONFIGS)) -> Case:
    """Case `number` of the seed, on one of the accelerators called `names`."""
    chance = random.Random(f"predicted {seed} {number}")
    name = chance.choice(names)
    config = CONFIGS[name]
    if chance.random() < 0.5:
        pruned = random.Random(f"pruned {seed} {number}").random() < 0.3
        model, kind = random_model(chance, pruned=pruned), "pruned layers" if pruned else "random layers"
    else:
        kind = chance.choice(RECIPES)
        heads = chance.randint(1, 4)
        head_dim = 2 * chance.randint(1, 16)
        shape = ModelShape(
            hidden=heads * head_dim,
            head_dim=head_dim,
            ffn=chance.randint(1, 160),
            heads=(heads,) * chance.randint(1, 4),
        )
        model = placeholder_model(shape, operand_plan(shape, kind))
    tokens = chance.choice([1, chance.randint(2, 16), chance.randint(17, 64), chance.randint(65, 512)])
    static = chance.random() < 0.3
    latency = chance.randint(10, 400)
    bandwidth = config.axi_data_bytes * chance.choice([0.25, 0.5, chance.uniform(0.25, 0.5), 1, 2])
    return Case(
        what=f"{name}, {kind}, {len(model.layers)} layers of hidden {model.hidden}, {tokens} tokens"
        f"{', packed' if static else ''}, latency {latency}, {bandwidth:.2f} bytes a cycle",
        config=config,
        model=model,
        tokens=tokens,
        ranges=packed_ranges(chance, tokens) if static else None,
        latency=latency,
        bandwidth=bandwidth,
    )


def compare(case) -> Comparison | None:
    """A case in RTL and predicted; None if its model doesn't fit the accelerator."""
    try:
        program = compile_model(case.model, case.config, tokens=case.tokens, ranges=case.ranges)
    except ValueError as error:
        assert "must fit the scratchpad" in str(error) or "row slots" in str(error)
        return None
    x16 = np.zeros((case.tokens, case.model.hidden), np.int16)
    hardware = chip(case.config)
    hardware.trace.clear()
    hardware.run(
        program,
        [program.input_pieces(x16=x16)],
        latency=case.latency,
        bandwidth=case.bandwidth,
        timeout=1 << 40,
    )
    measured = {}
    for engine in ("load", "store", "gemm", "vector"):
        for row, command in zip(hardware.trace.rows(engine), program.commands, strict=False):
            if row["busy"]:
                key = kind_of(command), engine
                measured[key] = measured.get(key, 0) + int(row["busy"])
    prediction = predict(program, Timing(memory=case.latency, bandwidth=case.bandwidth))
    predicted = {(kind.name, kind.engine): kind.busy for kind in prediction.kinds}
    return Comparison(hardware.cycles, prediction.cycles, measured, predicted)


def main() -> int:
    """Compares many cases; 1 if a prediction is too far off."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.predicted", description=__doc__)
    parser.add_argument("--cases", type=int, default=40)
    parser.add_argument("--first", type=int, default=0, help="number of the first case (default: 0)")
    parser.add_argument("--seed", type=int, help="default: a new one")
    parser.add_argument("--configs", default=",".join(CONFIGS), help="accelerators to draw from")
    options = parser.parse_args()
    names = tuple(options.configs.split(","))
    if options.cases < 1 or options.first < 0 or not set(names) <= set(CONFIGS):
        parser.error(f"cases must be at least 1, first at least 0, and configs some of {', '.join(CONFIGS)}")
    seed = secrets.randbelow(1 << 31) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    found, far, exact, number, start = 0, 0, 0, options.first, time.monotonic()
    worst = worst_operation = 0.0
    while found < options.cases:
        case = draw(seed, number, names)
        comparison = compare(case)
        number += 1
        if comparison is None:
            continue
        found += 1
        operation = max(map(abs, comparison.operations_off.values()), default=0)
        worst, worst_operation = max(worst, abs(comparison.off)), max(worst_operation, operation)
        exact += comparison.predicted == comparison.measured
        far += not comparison.is_close
        print(
            f"case {number - 1}: {case.what}: {comparison.measured:,} cycles, predicted {comparison.predicted:,} "
            f"({100 * comparison.off:+.3f} %, operations {100 * operation:.3f} %)"
            f"{'' if comparison.is_close else ' TOO FAR OFF'}",
            flush=True,
        )
    print(
        f"{found} cases, {exact} predicted to the cycle, {far} too far off; at most {100 * worst:.3f} % off in all and "
        f"{100 * worst_operation:.3f} % in an operation; {time.monotonic() - start:.0f} s, seed {seed}"
    )
    return 1 if far else 0


if __name__ == "__main__":
    sys.exit(main())
