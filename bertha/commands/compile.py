"""Compiles a model or one of its layers, checks the program, and keeps it, prints it, or says what it will cost."""

import sys
from collections import defaultdict
from pathlib import Path

from bertha.arguments import add_hard_attention, integer, number
from bertha.compilation import compile_model
from bertha.compiler.compile import compile_layer
from bertha.compiler.disassemble import disassemble
from bertha.compiler.predict import Timing, predict
from bertha.errors import UserError
from bertha.folders import BUILD
from bertha.models.hard_attention import check_hard_attention
from bertha.models.text import read_sentences
from bertha.quantization import quantize_model
from bertha.quantize.quantizer import Settings
from bertha.quantize.recipes import DEFAULT_RECIPE, RECIPES, check_recipe
from bertha.rtl.config import PRESETS, preset


def add_arguments(parser) -> None:
    parser.add_argument(
        "model", nargs="?", help="minilm (default), a folder, or a Hugging Face name in the local cache"
    )
    parser.add_argument("--model", dest="named", metavar="MODEL", help="the same")
    parser.add_argument("-o", "--output", type=Path, help="file for the compiled model, such as model.bertha")
    parser.add_argument("--preset", default="edge16", help=f"one of {', '.join(PRESETS)} (default: edge16)")
    parser.add_argument("--tokens", "--seq", type=integer, default=128, help="tokens of a run (default: 128)")
    parser.add_argument(
        "--recipe", help=f"one of {', '.join(RECIPES)}: what is spent on accuracy (default: {DEFAULT_RECIPE})"
    )
    parser.add_argument(
        "--calibration",
        type=Path,
        help="text file to set scales by, a sentence a line (default: film reviews and texts of many kinds)",
    )
    parser.add_argument("--layer", type=integer, help="one encoder layer alone (default: the whole model)")
    add_hard_attention(parser)
    parser.add_argument("--disassemble", action="store_true", help="print the program")
    parser.add_argument(
        "--latency", type=integer, default=Timing.memory, help="memory latency for the prediction"
    )
    parser.add_argument(
        "--bandwidth",
        type=number,
        help="of the memory in bytes a cycle, for the prediction (default: the bus's)",
    )


def run(options) -> int:
    from bertha.sim.options import check_memory

    _check_arguments(options)
    preset(options.preset)
    check_memory(options.latency, options.bandwidth)
    if options.recipe is not None:
        check_recipe(options.recipe)
    if options.tokens < 1:
        raise UserError(f"tokens must be at least 1, not {options.tokens}")
    check_hard_attention(options.hard_attention, tokens=options.tokens, renormalised=options.renormalised)
    artifact = None
    if options.layer is None:
        artifact = compile_model(_quantised_model(options), options.preset, options.tokens)
        program = artifact.program
    else:
        program = _layer_program(options)
    if options.disassemble:
        for line in disassemble(program):
            print(line)
    else:
        _report(program, predict(program, Timing(memory=options.latency, bandwidth=options.bandwidth)))
    if options.output:
        artifact.save(options.output)
        size = options.output.stat().st_size
        print(f"{options.output}: {size:,} bytes", file=sys.stderr if options.disassemble else sys.stdout)
    return 0


def _check_arguments(options):
    if options.model and options.named:
        raise UserError(f"model must be given once, not as {options.model!r} and {options.named!r}")
    options.model = options.model or options.named or "minilm"
    if options.layer is not None:
        if options.output:
            raise UserError("-o keeps whole models: leave out --layer")
        for name in ("recipe", "calibration"):
            if getattr(options, name) is not None:
                raise UserError(f"--{name} is a whole model's: leave out --layer")
    if options.output and options.output.is_dir():
        raise UserError(f"-o must name a file, but {str(options.output)!r} is a folder")
    if options.output and not options.output.parent.is_dir():
        raise UserError(f"-o must be in a folder that exists, but {str(options.output.parent)!r} doesn't")


def _note(what):
    print(f"{what} ...", file=sys.stderr, flush=True)


def _quantised_model(options):
    from bertha.models.encoder import load_encoder

    settings = None
    if options.calibration is not None:
        settings = Settings(texts=tuple(read_sentences(options.calibration)))
    _note(f"loading {options.model}")
    encoder = load_encoder(options.model, options.hard_attention, options.tokens, options.renormalised)
    return quantize_model(encoder, options.recipe or DEFAULT_RECIPE, settings, notify=_note)


def _layer_program(options):
    try:
        return compile_layer(
            _quantised_layer(options),
            preset(options.preset),
            seq=options.tokens,
            name=f"layer{options.layer}",
            model=f"layer {options.layer} of {options.model}",
        )
    except ValueError as error:
        raise UserError(str(error)) from None


def _quantised_layer(options):
    from bertha.models.encoder import load_encoder
    from bertha.quantize.cache import cached_layer

    encoder = load_encoder(options.model, options.hard_attention, options.tokens, options.renormalised)
    encoder.check_layer(options.layer)
    return cached_layer(encoder, options.layer, folder=BUILD / "quantized")


def _report(program, prediction):
    by_operation = defaultdict(lambda: [0, 0, 0])
    for command in program.commands:
        # layer0.scores.head3 and layer0.weights.query.panel5 count as scores and weights.
        operation = command.name.split(".")[1] if "." in command.name else command.name
        total = by_operation[command.opcode.name.lower(), operation]
        total[0] += 1
        total[1] += command.macs()
        total[2] += command.dram_bytes
    print(f"{'command':12} {'operation':16} {'commands':>8} {'MACs':>14} {'DRAM bytes':>12}")
    for (opcode, operation), (count, macs, dram_bytes) in by_operation.items():
        print(f"{opcode:12} {operation:16} {count:8} {macs:14,} {dram_bytes:12,}")
    print(
        f"predicted: {prediction.cycles:,} cycles, utilisation {prediction.utilization:.4f}; "
        f"{prediction.macs:,} MACs; the program keeps every rule"
    )
