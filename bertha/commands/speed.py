"""Speed of the simulation under cocotb against a bare C++ loop of the same model."""

from bertha.arguments import integer, within
from bertha.commands import sim


def add_arguments(parser) -> None:
    sim.add_run_arguments(parser)
    parser.add_argument("--layer", type=integer, default=0, help="encoder layer that is run (default: 0)")
    parser.add_argument("--rounds", type=within(1, 1000), default=3, help="measurements of each (default: 3)")


def run(options) -> int:
    from bertha.sim.bench import bench

    bench(sim.layer_options(options), sim.table_console(), rounds=options.rounds)
    return 0
