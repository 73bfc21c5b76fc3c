"""Measures the figures that the project is held to, beside their targets."""

import sys

from rich.console import Console

from bertha.arguments import within
from bertha.commands.sim import table_console
from bertha.errors import UserError
from bertha.folders import BUILD, CHECKOUT


def add_arguments(parser) -> None:
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="run these alone (commas, or given again)"
    )
    parser.add_argument("--list", action="store_true", help="print what there is, and what is known of it")
    parser.add_argument(
        "--predicted",
        action="store_true",
        help="predict programs instead of simulating them: minutes, not an hour",
    )
    parser.add_argument(
        "--again", action="store_true", help="measure again what was measured with the same sources"
    )
    parser.add_argument(
        "--rounds",
        type=within(1, 1000),
        default=3,
        help="of a speed, the fastest of which counts (default: 3)",
    )


def run(options) -> int:
    from bertha.benchmarks.catalogue import BENCHMARKS
    from bertha.benchmarks.context import Context, KeptFigures
    from bertha.benchmarks.results import result_table, update_document, write_json
    from bertha.benchmarks.run import run_benchmarks

    names = [name for part in options.only for name in part.split(",")]
    for name in names:
        if name not in BENCHMARKS:
            raise UserError(f"a benchmark must be one of {', '.join(BENCHMARKS)}, not {name!r}")
    chosen = [
        benchmark
        for name, benchmark in BENCHMARKS.items()
        if not options.list and (not names or name in names)
    ]
    others = [benchmark for benchmark in BENCHMARKS.values() if benchmark not in chosen]
    kept = KeptFigures(BUILD / "bench" / "measured.jsonl")
    console = Console(stderr=True)

    def notify(what):
        console.print(f"{what} ...", style="dim", highlight=False, markup=False)

    def finished(result):
        shown = result.benchmark.target.show(result.value) if result.value is not None else result.how
        notify(f"{result.benchmark.name}: {shown}")

    context = Context(
        kept, predicted=options.predicted, again=options.again, rounds=options.rounds, notify=notify
    )
    results, known = run_benchmarks(chosen, others, context, kept, finished)
    table_console().print(result_table(known if options.list else results), highlight=False, markup=False)
    if options.list:
        return 0
    by_name = {result.benchmark.name: result for result in [*results, *known]}
    everything = [by_name[name] for name in BENCHMARKS]
    report = BUILD / "bench" / "report.json"
    write_json(report, everything)
    print(f"report  {report}")
    if CHECKOUT and not options.predicted:
        update_document(CHECKOUT / "docs" / "results.md", everything)
    for result in results:
        if result.how == "failed":
            print(f"failed: {result.benchmark.name}: {result.detail}", file=sys.stderr)
    return 0 if all(result.ok or result.how == "needs RTL" for result in results) else 1
