"""Shows two runs of `bertha sim`, or two predictions, side by side."""

from pathlib import Path

from bertha.commands.sim import table_console
from bertha.folders import BUILD


def add_arguments(parser) -> None:
    for name, which in (("a", "one"), ("b", "the other")):
        parser.add_argument(
            name,
            type=Path,
            metavar=name.upper(),
            help=f"{which}: a run's folder or its report.json, or a file with what `bertha predict --json` printed",
        )
    parser.add_argument(
        "--html", type=Path, help="page to write (default: build/compare.html, or below the cache's folder)"
    )


def run(options) -> int:
    from bertha.comparison.page import write_comparison
    from bertha.comparison.side import read_pair
    from bertha.comparison.tables import comparison_tables

    one, other = read_pair(options.a, options.b)
    console = table_console()
    for table in comparison_tables(one, other):
        console.print(table, highlight=False)
    page = write_comparison(options.html or BUILD / "compare.html", one, other)
    console.print(f"page  {page}", highlight=False, markup=False, soft_wrap=True)
    return 0
