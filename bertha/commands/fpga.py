"""Resources and clock of the accelerator, or a part of it, on an FPGA."""

from rich.console import Console

from bertha.arguments import integer
from bertha.fpga.components import COMPONENTS
from bertha.fpga.device import ECP5_85F
from bertha.fpga.report import make_report, print_report
from bertha.rtl.config import PRESETS


def add_arguments(parser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="action")
    report = actions.add_parser(
        "report", allow_abbrev=False, help="synthesise, place and route, and print the figures"
    )
    report.add_argument("--preset", default="edge8", help=f"one of {', '.join(PRESETS)} (default: edge8)")
    report.add_argument("--component", default="top", help=f"one of {', '.join(COMPONENTS)} (default: top)")
    report.add_argument(
        "--pack-only", action="store_true", help="only the cells used: neither place nor route"
    )
    report.add_argument("--seed", type=integer, default=1, help="of the placer, from 0 (default: 1)")
    report.add_argument(
        "--depth", type=integer, default=1, help="levels of components to tell apart (default: 1)"
    )


def run(options) -> int:
    result, path = make_report(
        preset_name=options.preset,
        component_name=options.component,
        device=ECP5_85F,
        seed=options.seed,
        depth=options.depth,
        pack_only=options.pack_only,
    )
    print_report(result, Console())
    print(f"written to {path}")
    return 0 if result["fits"] else 1
