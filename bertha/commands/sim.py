"""Runs a whole model, or a layer of it, in RTL simulation and compares every byte with the integer model."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from bertha.arguments import add_hard_attention, integer, integers, number
from bertha.errors import UserError

if TYPE_CHECKING:
    from bertha.sim.options import LayerOptions, ModelOptions

_FILE_WIDTH = 120  # of tables that go to a file or a pipe


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise  # noqa: PLE0704 (called where the error is handled; rich's own would exit with 1)


def add_arguments(parser) -> None:
    add_run_arguments(parser)
    parser.add_argument(
        "--layer", type=integer, help="run this encoder layer alone (default: the whole model)"
    )
    parser.add_argument(
        "--recipe", help="of a whole model: w8a8, w8a8-split, mixed or a16 (default: w8a8-split)"
    )
    parser.add_argument(
        "--packing",
        help="of a whole model: static, a program for each packing, or data, one program for all of them "
        "(default: static for up to 4 packings)",
    )
    parser.add_argument(
        "--pairs", action="store_true", help="each line of the text is two sentences with a tab between them"
    )
    add_hard_attention(parser)
    parser.add_argument("--waves", action="store_true", help="write waves (FST)")


def add_run_arguments(parser) -> None:
    """Options of a model, a text and a memory."""
    parser.add_argument(
        "--model",
        default="minilm",
        help="minilm, synthetic-base, reduced, or a folder with "
        "config.json and model.safetensors (default: minilm)",
    )
    parser.add_argument(
        "--seq",
        "--tokens",
        type=integer,
        default=128,
        help="most tokens of a program; a layer alone takes each sentence padded to them (default: 128)",
    )
    parser.add_argument("--preset", default="edge16", help="accelerator (default: edge16)")
    parser.add_argument(
        "--text",
        "--input",
        type=Path,
        help="text file, a sentence a line, or - for the standard input (default: a few sentences; "
        "of a layer alone a film review)",
    )
    parser.add_argument(
        "--latency", type=integer, default=100, help="of the memory, in cycles (default: 100)"
    )
    parser.add_argument(
        "--bandwidth",
        type=number,
        help="of the memory, in bytes a cycle (default: 8, or the width of the bus if that is more)",
    )
    parser.add_argument(
        "--duplicates",
        type=integers,
        help="of a layer alone: duplicated channels of "
        "projections, output, intermediate and down layer, such as 4,0,4,4 (default: none)",
    )


def layer_options(options) -> "LayerOptions":
    """The `LayerOptions` of the parsed arguments."""
    from bertha.sim.options import LayerOptions

    given = {"layer": options.layer, "duplicates": options.duplicates}
    return LayerOptions(
        **_run_options(options), **{name: value for name, value in given.items() if value is not None}
    )


def model_options(options) -> "ModelOptions":
    """The `ModelOptions` of the parsed arguments."""
    from bertha.sim.options import ModelOptions

    given = {"recipe": options.recipe, "packing": options.packing}
    return ModelOptions(
        **_run_options(options),
        pairs=options.pairs,
        **{name: value for name, value in given.items() if value is not None},
    )


def _run_options(options):
    names = ("model", "seq", "preset", "text", "latency", "bandwidth")
    given = {name: getattr(options, name) for name in names}
    optional = {"waves": False, "hard_attention": None, "renormalised": True}
    return given | {name: getattr(options, name, default) for name, default in optional.items()}


def table_console() -> Console:
    """A console for tables: as wide as the terminal, or wide enough for all columns in a file."""
    console = _Console()
    if not console.is_terminal:
        console.width = _FILE_WIDTH
    return console


def run(options) -> int:
    from bertha.sim.run import run_layer, run_model

    if options.layer is None:
        _refuse(options, ["duplicates"], "needs --layer: a whole model's recipe chooses them")
        report = run_model(model_options(options), table_console())
    else:
        _refuse(options, ["recipe", "packing", "pairs"], "is for a whole model, not for --layer")
        report = run_layer(layer_options(options), table_console())
    if not report.bit_exact:
        print(f"the result differs from the integer model: {report.first_difference}", file=sys.stderr)
        return 1
    return 0


def _refuse(options, names, rule):
    for name in names:
        if getattr(options, name) not in (None, False):
            raise UserError(f"--{name} {rule}")
