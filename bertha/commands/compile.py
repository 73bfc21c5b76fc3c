"""Compiles a layer, checks the program, and prints it or what it will cost."""

from collections import defaultdict

from bertha.arguments import integer, number
from bertha.compiler.compile import compile_layer
from bertha.compiler.disassemble import disassemble
from bertha.compiler.predict import Timing, predict
from bertha.errors import UserError
from bertha.folders import BUILD
from bertha.rtl.config import PRESETS, preset


def add_arguments(parser) -> None:
    parser.add_argument("--model", default="minilm", help="minilm, or a folder with a BERT encoder")
    parser.add_argument("--layer", type=integer, default=0, help="encoder layer (default: 0)")
    parser.add_argument("--seq", type=integer, default=128, help="tokens (default: 128)")
    parser.add_argument("--preset", default="edge16", help=f"one of {', '.join(PRESETS)} (default: edge16)")
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

    config = preset(options.preset)
    check_memory(options.latency, options.bandwidth)
    if options.seq < 1:
        raise UserError(f"seq must be at least 1 token, not {options.seq}")
    layer = _quantised_layer(options)
    try:
        program = compile_layer(
            layer,
            config,
            seq=options.seq,
            name=f"layer{options.layer}",
            model=f"layer {options.layer} of {options.model}",
        )
    except ValueError as error:
        raise UserError(str(error)) from None
    if options.disassemble:
        for line in disassemble(program):
            print(line)
        return 0
    _report(program, predict(program, Timing(memory=options.latency, bandwidth=options.bandwidth)))
    return 0


def _quantised_layer(options):
    from bertha.models.encoder import load_model
    from bertha.quantize.cache import cached_layer

    encoder = load_model(options.model)
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
