"""What bounds BERT on the accelerator: tables, files and a page of the study that docs/characterisation.md discusses."""

import csv
import json
import sys
from pathlib import Path

from rich.table import Table

from bertha.arguments import integer, integers, number
from bertha.commands.sim import table_console
from bertha.errors import UserError
from bertha.folders import BUILD
from bertha.progress import progress_bar

MODELS = "minilm;synthetic-base-12;synthetic-large-24"
SMALL = "hidden=384,heads=12,ffn=1536,layers=2"
"""What is simulated in RTL by default: two layers of MiniLM's shape."""
_FILE_WIDTH = 200


def add_arguments(parser) -> None:
    parser.add_argument("--model", default=MODELS, metavar="A;B;...", help=f"models (default: {MODELS})")
    parser.add_argument(
        "--tokens", type=integers, default=(32, 64, 128, 256, 512), metavar="A,B,...", help="lengths"
    )
    parser.add_argument(
        "--length", type=integer, default=128, help="tokens where the length doesn't vary (default: 128)"
    )
    parser.add_argument(
        "--batch", type=integers, default=(1, 2, 4, 8, 16), metavar="A,B,...", help="sentences in a run"
    )
    parser.add_argument("--sentence", type=integer, default=32, help="tokens of each (default: 32)")
    parser.add_argument("--preset", default="edge16", help="where the width doesn't vary (default: edge16)")
    parser.add_argument("--widths", default="edge8,edge16,server32", metavar="A,B,...", help="presets")
    parser.add_argument(
        "--recipes", default="w8a8,a16", metavar="A,B,...", help="the first is used elsewhere"
    )
    parser.add_argument("--latency", type=integer, default=100, help="of the memory in cycles (default: 100)")
    parser.add_argument(
        "--bandwidth",
        type=number,
        help="of the memory (default: 8 bytes a cycle, or the bus's if that is more)",
    )
    parser.add_argument("--ablated", help="model of the ablations (default: the second, or the only one)")
    parser.add_argument("--only", metavar="A,B,...", help="sections (default: all)")
    parser.add_argument(
        "--rtl", action="store_true", help="run ablations and bandwidths in RTL too, beside the predictions"
    )
    parser.add_argument("--rtl-model", default=SMALL, help=f"model of these runs (default: {SMALL})")
    parser.add_argument("--out", type=Path, default=BUILD / "characterise", help="folder for the results")
    parser.add_argument("--workers", type=integer, help="processes (default: one a processor)")
    parser.add_argument("--scheduler", help="address of a Dask scheduler that is there already")


def run(options) -> int:
    from bertha.characterise.bandwidth import cross_points
    from bertha.characterise.measure import measure_points
    from bertha.characterise.page import write_page
    from bertha.characterise.tables import as_table, rows_of

    study = _study(options)
    sections = study.points()
    if "products" in study.sections:
        sections["products"] = [*study.product_points()]
    results = _measured(sections, options, measure_points, "predicting")
    crossings = study.crossing_points()
    if crossings:
        sections["bandwidth"] = crossings
        found = _measured({"bandwidth": crossings}, options, cross_points, "looking for crossings")
        results |= {f"bandwidth {key}": value for key, value in found.items()}
    options.out.mkdir(parents=True, exist_ok=True)
    console = table_console()
    if not console.is_terminal:
        console.width = _FILE_WIDTH
    report = {}
    for section in study.sections:
        known = _known(section, results)
        report[section] = rows = rows_of(section, sections[section], known)
        if rows:
            console.print(as_table(section, rows), highlight=False, markup=False)
            _write_csv(options.out / f"{section}.csv", rows)
    if options.rtl:
        report["rtl"] = rows = _in_rtl(study, options)
        console.print(_rtl_table(rows, options.rtl_model), highlight=False, markup=False)
        _write_csv(options.out / "rtl.csv", rows)
    (options.out / "report.json").write_text(json.dumps(report, indent=1, ensure_ascii=False))
    page = write_page(
        options.out / "report.html",
        {section: sections[section] for section in study.sections},
        {section: _known(section, results) for section in study.sections},
        title="What bounds BERT on the accelerator",
    )
    print(f"plots  {page}")
    print(f"tables {options.out / 'report.json'} and a CSV file each")
    failed = {key: result["error"] for key, result in results.items() if result.get("error")}
    for key, error in failed.items():
        print(f"failed: {key}: {error}", file=sys.stderr)
    differ = [row for row in report.get("rtl", []) if row["RTL cycles"] != row["predicted cycles"]]
    return 1 if failed or differ else 0


def _known(section, results):
    """Results of a section by its points' keys."""
    prefix = "bandwidth " if section == "bandwidth" else ""
    return {
        key.removeprefix(prefix): value
        for key, value in results.items()
        if key.startswith("bandwidth ") == bool(prefix)
    }


def _study(options):
    from bertha.characterise.study import SECTIONS, Study
    from bertha.rtl.config import preset
    from bertha.sweep.points import Point

    models = tuple(filter(None, options.model.split(";")))
    if not models:
        raise UserError("--model must name a model at least, but has none")
    chosen = SECTIONS if options.only is None else tuple(options.only.split(","))
    for name in chosen:
        if name not in SECTIONS:
            raise UserError(f"--only must name some of {', '.join(SECTIONS)}, not {name!r}")
    presets, recipes = tuple(options.widths.split(",")), tuple(options.recipes.split(","))
    for name in presets:
        preset(name)
    base = Point(
        preset=options.preset,
        tokens=options.length,
        recipe=recipes[0],
        latency=options.latency,
        bandwidth=options.bandwidth,
    )
    for recipe in recipes:
        Point(
            preset=options.preset, recipe=recipe, latency=options.latency, bandwidth=options.bandwidth
        ).check()
    for name, values in (
        ("tokens", options.tokens),
        ("batch", options.batch),
        ("sentence", [options.sentence]),
    ):
        if min(values) < 1:
            raise UserError(f"--{name} must be at least 1, not {min(values)}")
    return Study(
        base=base,
        models=models,
        tokens=options.tokens,
        batch=options.batch,
        sentence=options.sentence,
        presets=presets,
        recipes=recipes,
        ablated=options.ablated or models[min(1, len(models) - 1)],
        sections=chosen,
    )


def _measured(sections, options, function, what):
    """Results of all points by key."""
    from bertha.sweep.execute import run_points

    points = list({point.key: point for section in sections.values() for point in section}.values())
    results = {}
    with progress_bar(sys.stderr, what) as show:
        show(0, len(points))

        def finished(point, result):
            results[point.key] = result
            show(len(results), len(points))

        run_points(
            points,
            finished,
            function=function,
            address=options.scheduler,
            workers=options.workers,
            together=1,
        )
    return results


def _in_rtl(study, options):
    """Ablations, and two bandwidths, of a small model: cycles predicted and in RTL."""
    from dataclasses import replace

    from bertha.characterise.study import ABLATIONS
    from bertha.sweep.work import predict_points, simulate_points

    base = replace(study.base, model=options.rtl_model)
    points = []
    if "ablations" in study.sections:
        points += [replace(base, ablations=text) for text in ABLATIONS]
    if "bandwidth" in study.sections:
        points += [replace(base, bandwidth=part) for part in ("0.25x", "0.125x")]
    predicted = _measured({"rtl": points}, options, predict_points, "predicting")
    simulated = _measured({"rtl": points}, options, simulate_points, "simulating")
    rows = []
    for point in points:
        one, other = predicted[point.key], simulated[point.key]
        for result in (one, other):
            if result.get("error"):
                raise UserError(f"{point.key}: {result['error']}")
        rows.append(
            {
                "ablation": point.ablations or "none",
                "bytes a cycle": point.bytes_per_cycle,
                "predicted cycles": one["cycles"],
                "RTL cycles": other["cycles"],
                "predicted bytes": one["bytes_read"] + one["bytes_written"],
                "RTL bytes": other["bytes_read"] + other["bytes_written"],
            }
        )
    return rows


def _rtl_table(rows, model):
    table = Table(title=f"In RTL, beside the predictions: {model}", title_justify="left")
    for name in rows[0]:
        table.add_column(name, justify="left" if name == "ablation" else "right", overflow="fold")
    for row in rows:
        table.add_row(*(f"{value:,}" if isinstance(value, int) else str(value) for value in row.values()))
    return table


def _write_csv(path, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
