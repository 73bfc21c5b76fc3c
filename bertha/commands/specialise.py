"""Prunes a fine-tuned model for its task without training it, or reports on models that were."""

import sys
from pathlib import Path

from rich.table import Table

from bertha.arguments import integers, number, within
from bertha.commands.sim import table_console
from bertha.errors import UserError
from bertha.progress import progress_bar


def add_arguments(parser) -> None:
    parser.add_argument(
        "model", nargs="?", help="a fine-tuned model's folder, such as bertha finetune writes"
    )
    parser.add_argument(
        "--task",
        type=Path,
        metavar="FOLDER",
        help="TSV files in GLUE's form or label<TAB>text; the test file is for the last score only",
    )
    parser.add_argument(
        "-o", "--output", type=Path, help="folder for the specialised model, or for the report's page"
    )
    parser.add_argument(
        "--budget", type=number, default=0.0, help="points of accuracy that may be lost (default: 0)"
    )
    parser.add_argument(
        "--hard-attention",
        type=integers,
        default=(),
        metavar="K,...",
        help="try in each layer whether tokens may attend to K keys only",
    )
    parser.add_argument(
        "--no-renormalise",
        dest="renormalised",
        action="store_false",
        help="with --hard-attention, leave the kept probabilities what they are among all keys",
    )
    parser.add_argument(
        "--method",
        default="reconstruct",
        help="reconstruct (default), fisher, magnitude or random; greedy or flat: element by element",
    )
    parser.add_argument(
        "--no-repair", dest="repair", action="store_false", help="leave what isn't pruned as it was"
    )
    parser.add_argument(
        "--tokens", type=within(3, 512), default=128, help="to which texts are cut (default: 128)"
    )
    parser.add_argument("--judge", type=within(1, 999_999), help="most rows to judge by (default: 2000)")
    parser.add_argument("--seed", type=within(0, 2**32 - 1), default=0, help="of what is drawn (default: 0)")
    parser.add_argument(
        "--integer",
        type=within(0, 999_999),
        default=0,
        metavar="ROWS",
        help="score the w8a8 integer models on so many rows of the test set too (default: 0)",
    )
    parser.add_argument(
        "--report", type=Path, nargs="+", metavar="FOLDER", help="a table and a page of specialised models"
    )


def run(options) -> int:
    if options.report:
        return _report(options)
    for name in ("model", "task", "output"):
        if getattr(options, name) is None:
            flag = {"model": "a fine-tuned model", "task": "--task", "output": "-o"}[name]
            raise UserError(f"bertha specialise must be given {flag}, or --report")
    from bertha.specialise.run import SpecialiseOptions, specialise

    chosen = SpecialiseOptions(
        budget=options.budget,
        hard_attention=options.hard_attention,
        renormalised=options.renormalised,
        method=options.method,
        repair=options.repair,
        longest=options.tokens,
        judge=options.judge,
        seed=options.seed,
        integer_rows=options.integer,
    )
    with progress_bar(sys.stderr, "specialising") as advance:
        report = specialise(
            options.model,
            options.task,
            options.output,
            chosen,
            quantize=_quantized if options.integer else None,
            say=lambda line: print(line, flush=True),
            advance=advance,
        )
    print(f"{report['search']['evaluations']} pruned models judged on {report['search']['judged_rows']} rows")
    _print_table([report])
    print(f"model  {options.output}")
    return 0


def _quantized(encoder):
    from bertha.quantization import quantize_model

    return quantize_model(encoder, "w8a8").model


def _report(options):
    from bertha.specialise.page import read_reports, write_page

    reports = read_reports(options.report)
    _print_table(reports)
    folder = options.output or Path()
    if not folder.is_dir():
        raise UserError(f"-o must be a folder that exists, but {str(folder)!r} isn't")
    print(f"page  {write_page(folder / 'specialised.html', reports)}")
    return 0


def _print_table(reports):
    from bertha.specialise.page import mean_rows

    table = Table(title="On the test set; one standard error of its size", title_justify="left")
    for name in ("task", "model"):
        table.add_column(name)
    for name in (
        "seeds",
        "accuracy",
        "spread",
        "integer",
        "most frequent",
        "parameters",
        "bytes",
        "cycles",
        "faster",
    ):
        table.add_column(name, justify="right")
    for row in mean_rows(reports):
        table.add_row(*row)
    table_console().print(table, highlight=False, markup=False)
