"""Command line: `python -m sim layer`, `python -m sim bench`."""

import argparse
import sys
from pathlib import Path

from rich.console import Console

from sim.errors import SimulationError, ToolError, UserError

__all__ = ["main"]

_FILE_WIDTH = 120  # of tables that go to a file or a pipe


def _layer(arguments, console):
    from sim.run import run_layer

    report = run_layer(_options(arguments), console)
    if not report.bit_exact:
        print(f"the result differs from the integer model: {report.first_difference}", file=sys.stderr)
        return 1
    return 0


def _bench(arguments, console):
    from sim.bench import bench

    bench(_options(arguments), console, rounds=arguments.rounds)
    return 0


def _options(arguments):
    from sim.prepare import LayerOptions

    return LayerOptions(
        model=arguments.model, layer=arguments.layer, seq=arguments.seq, preset=arguments.preset,
        text=arguments.text, latency=arguments.latency, bandwidth=arguments.bandwidth,
        waves=arguments.waves, duplicates=arguments.duplicates,
    )


def _counts(option):
    return tuple(int(count) for count in option.split(","))


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(2, f"{self.prog}: {message}\n")


def _parser():
    parser = _Parser(prog="python -m sim", description=__doc__.split(":", maxsplit=1)[0])
    commands = parser.add_subparsers(dest="command", required=True)

    run = argparse.ArgumentParser(add_help=False)
    run.add_argument("--model", default="minilm", help="minilm, synthetic-base, reduced, or a folder with "
                     "config.json and model.safetensors (default: minilm)")
    run.add_argument("--layer", type=int, default=0, help="encoder layer (default: 0)")
    run.add_argument("--seq", type=int, default=128, help="tokens of a sequence (default: 128)")
    run.add_argument("--preset", default="edge16", help="accelerator (default: edge16)")
    run.add_argument("--text", "--input", type=Path, help="text file, a sentence a line (default: a film review)")
    run.add_argument("--latency", type=int, default=100, help="of the memory, in cycles (default: 100)")
    run.add_argument("--bandwidth", type=float, help="of the memory, in bytes a cycle "
                     "(default: 8, or the width of the bus if that is more)")
    run.add_argument("--duplicates", type=_counts, default=(0, 0, 0, 0), help="duplicated channels of projections, "
                     "output, intermediate and down layer, such as 4,0,4,4 (default: none)")
    run.add_argument("--waves", action="store_true", help="write waves (FST)")

    layer = commands.add_parser("layer", parents=[run], help="run an encoder layer and compare its result")
    layer.set_defaults(function=_layer)
    bench = commands.add_parser("bench", parents=[run], help="speed of the simulation under cocotb and without")
    bench.add_argument("--rounds", type=int, default=3, help="measurements of each (default: 3)")
    bench.set_defaults(function=_bench)
    return parser


def main(argv=None):
    """Runs the command line; the result is the exit code."""
    arguments = _parser().parse_args(argv)
    console = Console()
    if not console.is_terminal:
        console.width = _FILE_WIDTH
    try:
        return arguments.function(arguments, console)
    except _user_errors() as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, UserError) else 1
    except KeyboardInterrupt:
        return 130


def _user_errors():
    """The errors that are one sentence for the user; anything else is a bug and keeps its traceback."""
    errors = [UserError, ToolError, SimulationError]
    if "golden.models" in sys.modules:
        from golden.models import ModelError
        from golden.text import TextError

        errors += [ModelError, TextError]
    return tuple(errors)


if __name__ == "__main__":
    sys.exit(main())
