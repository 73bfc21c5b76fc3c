"""Runs an encoder layer in RTL simulation and compares every byte with the integer model."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from bertha.arguments import integer, integers, number

if TYPE_CHECKING:
    from bertha.sim.options import LayerOptions

_FILE_WIDTH = 120  # of tables that go to a file or a pipe


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise  # noqa: PLE0704 (called where the error is handled; rich's own would exit with 1)


def add_arguments(parser) -> None:
    add_layer_arguments(parser)
    parser.add_argument("--waves", action="store_true", help="write waves (FST)")


def add_layer_arguments(parser) -> None:
    """Options of a layer, a text and a memory."""
    parser.add_argument(
        "--model",
        default="minilm",
        help="minilm, synthetic-base, reduced, or a folder with "
        "config.json and model.safetensors (default: minilm)",
    )
    parser.add_argument("--layer", type=integer, default=0, help="encoder layer (default: 0)")
    parser.add_argument("--seq", type=integer, default=128, help="tokens of a sequence (default: 128)")
    parser.add_argument("--preset", default="edge16", help="accelerator (default: edge16)")
    parser.add_argument(
        "--text", "--input", type=Path, help="text file, a sentence a line (default: a film review)"
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
        default=(0, 0, 0, 0),
        help="duplicated channels of "
        "projections, output, intermediate and down layer, such as 4,0,4,4 (default: none)",
    )


def layer_options(options) -> "LayerOptions":
    """The `LayerOptions` of the parsed arguments."""
    from bertha.sim.options import LayerOptions

    return LayerOptions(
        model=options.model,
        layer=options.layer,
        seq=options.seq,
        preset=options.preset,
        text=options.text,
        latency=options.latency,
        bandwidth=options.bandwidth,
        waves=getattr(options, "waves", False),
        duplicates=options.duplicates,
    )


def table_console() -> Console:
    """A console for tables: as wide as the terminal, or wide enough for all columns in a file."""
    console = _Console()
    if not console.is_terminal:
        console.width = _FILE_WIDTH
    return console


def run(options) -> int:
    from bertha.sim.run import run_layer

    report = run_layer(layer_options(options), table_console())
    if not report.bit_exact:
        print(f"the result differs from the integer model: {report.first_difference}", file=sys.stderr)
        return 1
    return 0
