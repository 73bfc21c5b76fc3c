"""Whole models beside PyTorch: embeddings by recipe, cost, downstream tasks; or single layers and units."""

from pathlib import Path

from rich.console import Console
from rich.table import Table

from bertha.arguments import integer, within
from bertha.commands.sim import table_console
from bertha.errors import UserError
from bertha.evaluate.options import EvaluationOptions
from bertha.folders import BUILD
from bertha.quantize.recipes import RECIPES

MANY = 999_999


def add_arguments(parser) -> None:
    parser.add_argument("--model", default="minilm", help="minilm, synthetic-base, reduced or a folder")
    parser.add_argument("--seed", type=within(0, 2**32 - 1), default=0, help="which texts (default: 0)")
    parser.add_argument(
        "--sentences",
        type=within(1, 9999),
        help="unseen sentences to evaluate on (default: the whole corpus, and 120 for layers)",
    )
    whole = parser.add_argument_group("whole model")
    whole.add_argument(
        "--recipes", nargs="+", default=RECIPES, metavar="RECIPE", help=f"some of {' '.join(RECIPES)}"
    )
    whole.add_argument("--preset", default="edge16", help="whose cycles are predicted (default: edge16)")
    whole.add_argument(
        "--tokens",
        type=within(3, 512),
        default=128,
        help="of the longest text, and of the program whose cycles are predicted (default: 128)",
    )
    whole.add_argument(
        "--tasks",
        type=Path,
        nargs="+",
        default=(),
        metavar="FOLDER",
        help="TSV files in GLUE's form or label<TAB>text, or folders of such folders",
    )
    whole.add_argument("--no-tasks", action="store_true", help="only the corpus")
    whole.add_argument("--train", type=within(2, MANY), help="most rows of a task to train with")
    whole.add_argument("--test", type=within(2, MANY), help="most rows of a task to test with")
    whole.add_argument("--all", action="store_true", help="all rows of every task")
    whole.add_argument("--seeds", type=within(1, 99), default=5, help="of each probe (default: 5)")
    single = parser.add_argument_group("single layers and units (with any of these)")
    single.add_argument("--layers", type=integer, nargs="+", help="layers to measure (default: all)")
    single.add_argument(
        "--duplicates",
        nargs="+",
        metavar="P,O,I,D",
        help="duplicated channels of projections, output, intermediate and down, comma-separated",
    )


def run(options) -> int:
    if options.layers is not None or options.duplicates is not None:
        return _run_layers(options)
    from bertha.evaluate.report import write_report
    from bertha.evaluate.run import evaluate

    console = table_console()
    evaluation = evaluate(
        EvaluationOptions(
            model=options.model,
            recipes=tuple(options.recipes),
            preset=options.preset,
            tokens=options.tokens,
            sentences=options.sentences,
            seed=options.seed,
            tasks=not options.no_tasks,
            folders=tuple(options.tasks),
            train=options.train,
            test=options.test,
            everything=options.all,
            seeds=options.seeds,
        ),
        console,
        BUILD,
    )
    path = BUILD / "accuracy" / "report.json"
    write_report(path, evaluation)
    console.print(f"the same and more, for machines: {path}", soft_wrap=True)
    return 0


def _run_layers(options):
    from bertha.evaluate.layers import layer_sentences, print_layers
    from bertha.models.encoder import load_model
    from bertha.quantize import quantizer

    counts = [_duplicates(option) for option in options.duplicates or ["0,0,0,0"]]
    encoder = load_model(options.model)
    layers = range(encoder.layers) if options.layers is None else options.layers
    for index in layers:
        encoder.check_layer(index)
    for duplicates in counts:
        quantizer.check_duplicates(
            duplicates, hidden=encoder.config.hidden_size, ffn=encoder.config.intermediate_size
        )
    sentences = layer_sentences(encoder, options.sentences or 120, options.seed)
    console = Console()
    console.print(_unit_table())
    print_layers(console, encoder, layers, counts, sentences)
    return 0


def _unit_table():
    from bertha.quantize import unit_errors

    table = Table(title="Units against float")
    for column in ("unit", "measure", "largest error", "rms error"):
        table.add_column(column, justify="right" if "error" in column else "left")
    for error in unit_errors.unit_errors():
        table.add_row(error.unit, error.measure, f"{error.largest:.5f}", f"{error.rms:.6f}")
    return table


def _duplicates(option):
    from bertha.quantize.quantizer import Duplicates

    try:
        numbers = [int(part) for part in option.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != 4 or min(numbers) < 0:
        raise UserError(f"duplicates must be four numbers from 0 such as 0,0,4,4, not {option!r}")
    return Duplicates(projections=numbers[0], output=numbers[1], intermediate=numbers[2], down=numbers[3])
