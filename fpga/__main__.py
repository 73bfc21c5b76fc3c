"""`python -m fpga report`: resources and Fmax of the accelerator, or a part of it, on an FPGA."""

import argparse
import sys

from rich.console import Console

from fpga.components import COMPONENTS
from fpga.device import ECP5_85F
from fpga.report import make_report, print_report
from fpga.tools import ToolError
from rtl.config import PRESETS


def main(arguments=None):
    """Runs the command line; returns the exit code: 0 if it fits, 1 if not or on an error."""
    parser = argparse.ArgumentParser(prog="python -m fpga", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    report = commands.add_parser("report", help="synthesise, place and route, and print the figures")
    report.add_argument("--preset", default="edge8", help=f"one of {', '.join(PRESETS)}")
    report.add_argument("--component", default="top", help=f"one of {', '.join(COMPONENTS)}")
    report.add_argument("--seed", type=int, default=1, help="of the placer")
    report.add_argument("--depth", type=int, default=1, help="levels of components to tell apart")
    options = parser.parse_args(arguments)
    try:
        result, path = make_report(
            preset_name=options.preset,
            component_name=options.component,
            device=ECP5_85F,
            seed=options.seed,
            depth=options.depth,
        )
    except (ValueError, ToolError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print_report(result, Console())
    print(f"written to {path}")
    return 0 if result["fits"] else 1


if __name__ == "__main__":
    sys.exit(main())
