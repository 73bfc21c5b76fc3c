"""Models of real size on the simulated chip against the integer model: `python -m tests.sim.large_models`.

`shapes minilm:edge16:128 base:server32:128 base-layer:edge8:512` runs models of a shape with random integers in
them, which take as many cycles as real ones, with one sentence that fills the program. `alone --preset edge8`
runs eight sentences of 3 to 100 tokens packed, padded and alone. Both compare every byte.
"""

import argparse
import sys

from bertha.compiler.compile import compile_layer, compile_model
from bertha.compiler.packing import pack_sentences
from bertha.compiler.predict import default_timing, predict
from bertha.golden.integer_model import run_layer, run_model, run_sentences
from bertha.rtl.config import PRESETS, preset
from tests.compiler.layers import chained, random_inputs, random_layer
from tests.sim.chip import chip, equal

SHAPES = {
    "minilm": {"layers": 6, "heads": 12, "head_dim": 32, "ffn": 1536},
    "base": {"layers": 12, "heads": 12, "head_dim": 64, "ffn": 3072},
    "large": {"layers": 24, "heads": 16, "head_dim": 64, "ffn": 4096},
    "reduced": {"layers": 2, "heads": 2, "head_dim": 16, "ffn": 64},
}
LENGTHS = (3, 100, 9, 37, 64, 5, 17, 28)


def shape_model(name, *, layers=None):
    """A model of this shape; all its layers are the same."""
    shape = SHAPES[name]
    layer = random_layer(
        seed=0, heads=shape["heads"], head_dim=shape["head_dim"], ffn=shape["ffn"], duplicates=(0, 0, 0, 0)
    )
    return chained([layer] * (layers or shape["layers"]))


def run_shape(case) -> bool:
    """Runs one `shape[-layer]:preset:tokens` and prints its figures; whether every byte is right."""
    name, preset_name, tokens = case.split(":")
    config, tokens = preset(preset_name), int(tokens)
    single = name.endswith("-layer")
    model = shape_model(name.removesuffix("-layer"), layers=1 if single else None)
    x16, _ = random_inputs(model.layers[0], tokens, seed=tokens)
    if single:
        program = compile_layer(model.layers[0], config, seq=tokens)
        found = run_layer(model.layers[0], x16)
        pieces = program.input_pieces(x16=x16, x8=found["x8"])
    else:
        program = compile_model(model, config, tokens=tokens)
        found = run_model(model, x16)
        pieces = program.input_pieces(x16=x16)
    timing = default_timing(config)
    predicted = predict(program, timing).cycles
    machine = chip(config)
    [result] = machine.run(
        program,
        [pieces],
        latency=timing.memory,
        bandwidth=timing.bandwidth,
        timeout=2 * predicted + 1_000_000,
    )
    right = equal(result, found["output16"])
    weights = sum(command.dram_bytes for command in program.commands if ".weights." in command.name)
    print(
        f"{case:<24} {machine.cycles:>12,} cycles  {program.macs / config.array_n**2 / machine.cycles:8.3%} of peak  "
        f"{machine.cycles * timing.bandwidth / weights:7.3f} of loading weights  "
        f"predicted {predicted / machine.cycles - 1:+.3%}  {'every byte equal' if right else 'DIFFERENT'}",
        flush=True,
    )
    return right


def run_alone(preset_name, shape) -> bool:
    """Runs eight sentences packed, each padded to the longest, and each alone; whether all give equal bytes."""
    config, model = preset(preset_name), shape_model(shape)
    rows = [random_inputs(model.layers[0], length, seed=length)[0] for length in LENGTHS]
    expected = run_sentences(model, rows)
    usual = default_timing(config)
    timing = {"latency": usual.memory, "bandwidth": usual.bandwidth, "timeout": 1 << 31}
    machine, right = chip(config), True
    ways = {
        "packed": ([pack_sentences(LENGTHS, sum(LENGTHS))], True),
        "packed in programs of 128": ([pack_sentences(LENGTHS, 128)], False),
        "padded": ([pack_sentences([length], max(LENGTHS)) for length in LENGTHS], False),
        "alone": ([pack_sentences([length], length) for length in LENGTHS], True),
    }
    for way, (packed, static) in ways.items():
        programs, same = {}, 0
        for number, packings in enumerate(packed):
            own = rows if len(packed) == 1 else [rows[number]]
            wanted = expected if len(packed) == 1 else [expected[number]]
            for packing in packings:
                key = (packing.tokens, packing.ranges.tobytes() if static else None)
                if key not in programs:
                    programs[key] = compile_model(
                        model, config, tokens=packing.tokens, ranges=packing.ranges if static else None
                    )
                program = programs[key]
                pieces = program.input_pieces(x16=packing.gather(own, model.hidden), ranges=packing.ranges)
                [result] = machine.run(program, [pieces], **timing)
                same += sum(
                    equal(result[place], wanted[sentence])
                    for place, sentence in zip(packing.places, packing.sentences, strict=True)
                )
        print(
            f"{preset_name:<10} {way:<26} {same} of {len(LENGTHS)} sentences equal, byte by byte", flush=True
        )
        right &= same == len(LENGTHS)
    return right


def main() -> int:
    """Runs what the command line says; 1 if a byte differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.large_models", description=__doc__)
    commands = parser.add_subparsers(required=True, dest="command")
    shapes = commands.add_parser("shapes", help=f"shape[-layer]:preset:tokens, of {', '.join(SHAPES)}")
    shapes.add_argument("cases", nargs="+")
    alone = commands.add_parser("alone", help="sentences packed, padded and alone")
    alone.add_argument("--preset", choices=PRESETS, default="edge16")
    alone.add_argument("--shape", choices=SHAPES, default="minilm")
    options = parser.parse_args()
    if options.command == "alone":
        return 0 if run_alone(options.preset, options.shape) else 1
    return 0 if all([run_shape(case) for case in options.cases]) else 1


if __name__ == "__main__":
    sys.exit(main())
