"""Predicts, or simulates, a model on many accelerators and memories: a table, a page of plots, the Pareto front."""

import hashlib
import sys
from pathlib import Path

from rich.table import Table

from bertha.arguments import integer, number
from bertha.commands.sim import table_console
from bertha.errors import UserError
from bertha.folders import BUILD
from bertha.progress import progress_bar

_OPTIONS = {
    "--model": ("model", "names, or sizes such as hidden=768;heads=12;ffn=3072;layers=12"),
    "--tokens": ("tokens", "tokens of a run"),
    "--sentences": ("sentences", "tokens of the sentences in a run, such as 20+40,128"),
    "--recipe": ("recipe", "recipes"),
    "--preset": ("preset", "configurations that the following change"),
    "--array": ("array_n", "sides of the array"),
    "--scratchpad": ("scratchpad_bytes", "bytes of scratchpad, such as 256K,1M"),
    "--banks": ("scratchpad_banks", "banks of the scratchpad"),
    "--bus": ("axi_data_bits", "bits of the bus"),
    "--ablate": ("ablations", "what is done apart from the drain, such as gelu=pass,gelu=pass+moments=dram"),
    "--latency": ("latency", "cycles of latency of the memory"),
    "--bandwidth": ("bandwidth", "bytes a cycle of the memory, or parts of the bus's such as 0.25x,1x"),
}
_MOST_SHOWN = 20


def add_arguments(parser) -> None:
    for option, (name, what) in _OPTIONS.items():
        parser.add_argument(option, dest=f"axis_{name}", metavar="A,B,...", help=what)
    parser.add_argument(
        "--set",
        dest="axes",
        metavar="NAME=A,B,...",
        action="append",
        default=[],
        help="values of any other parameter of the configuration, such as burst_beats=16,64",
    )
    parser.add_argument("--file", type=Path, help="points from a CSV or JSON file instead (docs/predict.md)")
    parser.add_argument(
        "--rtl", action="store_true", help="simulate the RTL of whole models instead; takes long"
    )
    parser.add_argument(
        "--clock", type=number, default=100.0, help="MHz, for sentences a second (default: 100)"
    )
    parser.add_argument("--out", type=Path, help="folder for the results (default: one by the points)")
    parser.add_argument("--workers", type=integer, help="processes (default: one a processor)")
    parser.add_argument("--scheduler", help="address of a Dask scheduler that is there already")


def run(options) -> int:
    from bertha.sweep.execute import run_points
    from bertha.sweep.page import write_page
    from bertha.sweep.store import Store
    from bertha.sweep.work import simulate_points

    points = _points(options)
    if options.workers is not None and options.workers < 1:
        raise UserError(f"workers must be at least 1, not {options.workers}")
    if not 0 < options.clock < 1e6:
        raise UserError(f"clock must be from above 0 to 1,000,000 MHz, not {options.clock:g}")
    folder = options.out or BUILD / "sweep" / _digest(points)
    kind = "rtl" if options.rtl else "predicted"
    store = Store(folder, kind)
    results = {key: value for key, value in store.finished().items() if key in {p.key for p in points}}
    missing = [point for point in points if point.key not in results]
    if len(missing) < len(points):
        print(f"{len(points) - len(missing)} of {len(points)} points are finished already", file=sys.stderr)
    if missing:
        with progress_bar(sys.stderr, "simulating" if options.rtl else "predicting") as show:
            show(0, len(missing))

            def finished(point, result):
                store.add(point, result)
                results[point.key] = result
                show(len(results) - len(points) + len(missing), len(missing))

            how = {"function": simulate_points, "together": 1} if options.rtl else {}
            run_points(missing, finished, address=options.scheduler, workers=options.workers, **how)
    rows = [(point, results[point.key]) for point in points]
    table = store.write_csv(rows)
    good = [row for row in rows if not row[1].get("error")]
    failed = [row for row in rows if row[1].get("error")]
    if good:
        title = f"{len(good)} points {'simulated' if options.rtl else 'predicted'}"
        page = write_page(folder / f"{kind}.html", good, clock=1e6 * options.clock, title=title)
        _print_front(good, options.clock)
        print(f"plots  {page}")
    print(f"table  {table}")
    for point, result in failed[:_MOST_SHOWN]:
        print(f"failed: {_name(point)}: {result['error']}", file=sys.stderr)
    if len(failed) > _MOST_SHOWN:
        print(f"and {len(failed) - _MOST_SHOWN} more failed: see the table", file=sys.stderr)
    return 1 if failed else 0


def _points(options):
    from bertha.sweep.points import AXES, grid, parse_value, read_points

    axes = {name: getattr(options, f"axis_{name}") for name, _ in _OPTIONS.values()}
    axes = {name: text for name, text in axes.items() if text is not None}
    for change in options.axes:
        name, _, text = change.partition("=")
        if name not in AXES or name in axes:
            raise UserError(f"--set must name one of {', '.join(AXES)}, once, not {name!r}")
        axes[name] = text
    if options.file is not None:
        if axes:
            raise UserError("points come from --file or from options, not from both")
        points = read_points(options.file)
    else:
        values = {
            name: [parse_value(name, _sizes(name, part)) for part in text.split(",")]
            for name, text in axes.items()
        }
        points = grid(values)
    unique = {point.key: point for point in points}
    return list(unique.values())


def _sizes(name, text):
    return text.replace(";", ",") if name == "model" else text


def _digest(points):
    return hashlib.sha256("\n".join(point.key for point in points).encode()).hexdigest()[:12]


def _name(point):
    return ", ".join(f"{name} {value}" for name, value in point.as_dict().items()) or "all as by default"


def _print_front(rows, clock):
    from bertha.sweep.page import costs_of
    from bertha.sweep.pareto import pareto_front

    front = sorted(pareto_front(rows, costs_of), key=costs_of)
    table = Table(
        title="Pareto front: cycles a sentence, multipliers, bytes of scratchpad", title_justify="left"
    )
    table.add_column("point")
    for name in (
        "cycles a sentence",
        "multipliers",
        "scratchpad",
        "utilisation",
        f"sentences/s at {clock:g} MHz",
    ):
        table.add_column(name, justify="right")
    for row in front[:_MOST_SHOWN]:
        cycles, multipliers, scratchpad = costs_of(row)
        table.add_row(
            _name(row[0]),
            f"{cycles:,.0f}",
            f"{multipliers:,}",
            f"{scratchpad:,}",
            f"{100 * row[1]['utilization']:.2f} %",
            f"{1e6 * clock / cycles:,.2f}",
        )
    if len(front) > _MOST_SHOWN:
        table.caption = f"and {len(front) - _MOST_SHOWN} more"
    table_console().print(table, highlight=False, markup=False)
