"""Predicts the cycles of a model on an accelerator, and what they go to, without simulating it."""

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from bertha.arguments import add_hard_attention, integer, integers, number
from bertha.commands.sim import table_console
from bertha.compiler.ablations import parse_ablations
from bertha.compiler.placeholder import RECIPES
from bertha.errors import UserError
from bertha.rtl.config import PRESETS, Config, preset
from bertha.tables import cycles_table, operation_table

if TYPE_CHECKING:
    from bertha.compiler.attribution import OperationCost


def add_arguments(parser) -> None:
    parser.add_argument(
        "model",
        nargs="?",
        default="minilm",
        help="minilm (default), synthetic-base-12 and the like, sizes such as hidden=768,heads=12,ffn=3072,layers=12, "
        "a folder or a Hugging Face name in the local cache, whose config.json is read, or a compiled model",
    )
    parser.add_argument("--preset", help=f"one of {', '.join(PRESETS)} (default: edge16)")
    parser.add_argument(
        "--set",
        dest="changes",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a parameter of the configuration, such as array_n=8 or axi_data_bits=32; may be given again",
    )
    parser.add_argument("--tokens", "--seq", type=integer, help="tokens of a run (default: 128)")
    parser.add_argument(
        "--recipe",
        help=f"one of {', '.join(RECIPES)} (default: w8a8-split): which operands are wide or longer",
    )
    parser.add_argument(
        "--sentences",
        type=integers,
        help="tokens of the sentences in a run, such as 20,40,60: a program for this packing (default: for all)",
    )
    add_hard_attention(parser, values=False)
    parser.add_argument(
        "--ablate",
        metavar="NAME=VALUE+...",
        help="what is done apart from the drain, such as gelu=pass+moments=dram (docs/characterisation.md)",
    )
    parser.add_argument("--latency", type=integer, default=100, help="of the memory in cycles (default: 100)")
    parser.add_argument(
        "--bandwidth",
        type=number,
        help="of the memory in bytes a cycle (default: 8, or the bus's if that is more)",
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON")


def run(options) -> int:
    from bertha.compiler.predict import Timing, default_timing
    from bertha.sim.options import check_memory

    check_memory(options.latency, options.bandwidth)
    if Path(options.model).is_file():
        title, prediction = _of_artifact(options)
    else:
        from bertha.prediction import Workload, predict_workload

        config = changed_config(preset(options.preset or "edge16"), options.changes)
        recipe = options.recipe or "w8a8-split"
        if recipe not in RECIPES:
            raise UserError(f"recipe must be one of {', '.join(RECIPES)}, not {recipe!r}")
        workload = Workload(
            model=options.model,
            tokens=128 if options.tokens is None else options.tokens,
            recipe=recipe,
            sentences=options.sentences or (),
            hard_attention=options.hard_attention,
            ablations=parse_ablations(options.ablate or ""),
        )
        bandwidth = options.bandwidth or default_timing(config).bandwidth
        prediction = predict_workload(workload, config, Timing(memory=options.latency, bandwidth=bandwidth))
        title = f"{options.model}, {recipe}"
    if options.json:
        print(json.dumps(as_dict(prediction), indent=1))
    else:
        _print(title, prediction, options)
    return 0


def _of_artifact(options):
    """The prediction of a compiled model's own program."""
    from bertha.compiler.predict import Timing, default_timing, predict
    from bertha.runtime.artifact import load_artifact

    for name in ("preset", "tokens", "recipe", "sentences", "hard_attention", "ablate"):
        if getattr(options, name) is not None:
            raise UserError(
                f"--{name.replace('_', '-')} is chosen when a model is compiled: leave it out for {options.model}"
            )
    if options.changes:
        raise UserError(f"--set changes what a model is compiled for: leave it out for {options.model}")
    artifact = load_artifact(Path(options.model))
    bandwidth = options.bandwidth or default_timing(artifact.program.config).bandwidth
    timing = Timing(memory=options.latency, bandwidth=bandwidth)
    return f"{artifact.host.name}, {artifact.recipe}", predict(artifact.program, timing)


def changed_config(config, changes) -> Config:
    """A configuration with some parameters changed, each change as `name=value`.

    Raises
    ------
    UserError
        If there is no such parameter, or a value breaks its rule.
    """
    known = {field.name for field in fields(Config)}
    values = {}
    for change in changes:
        name, _, value = change.partition("=")
        if name not in known:
            raise UserError(f"--set must name one of {', '.join(sorted(known))}, not {name!r}")
        try:
            values[name] = int(value, 0)
        except ValueError:
            raise UserError(f"{name} must be an integer, not {value!r}") from None
    try:
        return config.replace(**values)
    except (TypeError, ValueError) as error:
        raise UserError(str(error)) from None


def as_dict(prediction) -> dict:
    """A prediction as JSON has it."""
    return {
        "config": prediction.program.config.as_dict(),
        "tokens": prediction.program.tokens,
        "commands": len(prediction.program.commands),
        **{
            name: getattr(prediction, name)
            for name in ("cycles", "macs", "utilization", "busy", "bytes_read", "bytes_written", "activity")
        },
        "layers": [asdict(layer) for layer in prediction.layers],
        "kinds": [asdict(kind) for kind in prediction.kinds],
        "attribution": [cost.as_dict() for cost in attribution_of(prediction)],
    }


def attribution_of(prediction) -> "list[OperationCost]":
    """What the operations of every layer take, layer 1 of a program that repeats it as often as it counts."""
    from bertha.compiler.attribution import CommandTimes, attribute

    return attribute(prediction.program, CommandTimes.of_prediction(prediction), prediction.program.ranges)


def _print(title, prediction, options):
    config = prediction.program.config
    console = table_console()
    facts = Table(show_header=False, box=None)
    name = next((name for name, other in PRESETS.items() if other == config), "no preset")
    rows = {
        "model": title,
        "hardware": f"{name}, {config.array_n} x {config.array_n}, scratchpad {config.scratchpad_bytes:,} bytes in "
        f"{config.scratchpad_banks} banks, bus {config.axi_data_bits} bits",
        "memory": f"{options.latency} cycles, "
        + f"{options.bandwidth or max(8, config.axi_data_bytes):g} bytes a cycle",
        "cycles": f"{prediction.cycles:,} predicted, {prediction.macs:,} MACs",
        "utilisation": f"{100 * prediction.utilization:.2f} % of {config.array_n**2} MACs a cycle",
        "DRAM": f"{prediction.bytes_read:,} bytes read, {prediction.bytes_written:,} written",
    }
    for row in rows.items():
        facts.add_row(*row)
    console.print(facts, highlight=False, markup=False)
    costs = attribution_of(prediction)
    for table in (_engine_table(prediction), _layer_table(prediction), _operation_table(prediction, costs)):
        console.print(table, highlight=False, markup=False)


def _share(cycles, total):
    return f"{100 * cycles / total:.1f} %" if cycles else ""


def _readable(activity):
    return activity.replace("wait_", "waits for ")


def _engine_table(prediction):
    from bertha.compiler.cycles.model import ACTIVITIES

    names = {name: _readable(name) for name in ACTIVITIES}
    return cycles_table(prediction.activity, names, title="What each engine's cycles go to", first="activity")


def _layer_table(prediction):
    table = Table(title="Layers, from the end of the one before in the array", title_justify="left")
    table.add_column("layer", no_wrap=True)
    for name in ("cycles each", "of all", "MACs each", "utilisation", "array stands still"):
        table.add_column(name, justify="right")
    for layer in prediction.layers:
        idle = layer.cycles - layer.activity["gemm"].get("working", 0)
        table.add_row(
            layer.name,
            f"{layer.cycles:,}",
            _share(layer.count * layer.cycles, prediction.cycles),
            f"{layer.macs:,}",
            f"{100 * layer.utilization:.2f} %",
            f"{idle:,}",
        )
    return table


def _operation_table(prediction, costs):
    from bertha.compiler.attribution import by_purpose

    array_n = prediction.program.config.array_n
    return operation_table(by_purpose(costs), prediction.cycles, array_n, title="Operations, all layers")
