"""Cycles of a layer's matrix products according to SCALE-Sim, for the results page."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from bertha.arguments import within
from bertha.commands.sim import table_console
from bertha.errors import ToolError, UserError
from bertha.folders import BUILD, PACKAGE
from bertha.locks import locked

REQUIREMENTS = ("scalesim==3.0.0", "numpy<2", "pandas<3")  # an environment of its own: ours has NumPy 2
SCRIPT = PACKAGE / "scalesim_cycles.py"


@dataclass(frozen=True)
class Shape:
    """An encoder layer's sizes."""

    hidden: int
    heads: int
    ffn: int

    def products(self, seq) -> list[tuple[int, int, int, int]]:
        """The layer's matrix products: (how many, m, n, k) of an m x k by a k x n matrix each."""
        head = self.hidden // self.heads
        return [
            (4, seq, self.hidden, self.hidden),  # query, key, value and output
            (self.heads, seq, seq, head),  # scores
            (self.heads, seq, head, seq),  # context
            (1, seq, self.ffn, self.hidden),
            (1, seq, self.hidden, self.ffn),
        ]


SHAPES = {"minilm": Shape(384, 12, 1536), "base": Shape(768, 12, 3072), "large": Shape(1024, 16, 4096)}


def add_arguments(parser) -> None:
    parser.add_argument(
        "--models",
        nargs="+",
        default=["minilm", "base"],
        help=f"of {', '.join(SHAPES)} (default: minilm base)",
    )
    parser.add_argument(
        "--arrays",
        nargs="+",
        type=within(1, 128),
        default=[16, 32],
        help="sides of the array (default: 16 32)",
    )
    parser.add_argument("--seq", type=within(1, 4096), default=128, help="tokens (default: 128)")


def run(options) -> int:
    for name in options.models:
        if name not in SHAPES:
            raise UserError(f"model must be one of {', '.join(SHAPES)}, not {name!r}")
    rows = [(name, side) for name in options.models for side in options.arrays]
    python = _environment(BUILD / "scalesim")
    table = _table(options.seq)
    with Console(stderr=True).status("") as status:
        for name, side in rows:
            status.update(f"SCALE-Sim: {name} on {side} x {side}")
            products = SHAPES[name].products(options.seq)
            table.add_row(
                f"{name}, {side} x {side}", *figures(products, side, product_cycles(python, products, side))
            )
    table_console().print(table)
    return 0


def figures(products, side, cycles) -> list[str]:
    """A row of the table: cycles, with the utilisation that they mean.

    Parameters
    ----------
    products : list of (count, m, n, k)
    side : int
        Of the array.
    cycles : list of dict of str to int
        Of one product each, by dataflow: `os`, `ws`, `is`.
    """
    ideal = sum(count * m * n * k for count, m, n, k in products) / side**2
    counts = [count for count, *_ in products]
    totals = [
        sum(count * found[name] for count, found in zip(counts, cycles, strict=True)) for name in ("os", "ws")
    ]
    totals.append(sum(count * min(found.values()) for count, found in zip(counts, cycles, strict=True)))
    return [f"{ideal:,.0f}", *(f"{total:,} ({100 * ideal / total:.1f} %)" for total in totals)]


def best_cycles(products, side) -> int:
    """Cycles of all products (see `figures`) in SCALE-Sim, each with the dataflow that suits it best.

    Raises
    ------
    ToolError
        If SCALE-Sim can't be installed, or fails.
    """
    cycles = product_cycles(_environment(BUILD / "scalesim"), products, side)
    return sum(count * min(found.values()) for (count, *_), found in zip(products, cycles, strict=True))


def _table(seq):
    table = Table(
        title=f"GEMMs of one encoder layer, S = {seq}, in SCALE-Sim: cycles (utilisation), no stalls"
    )
    for column in ("layer", "ideal", "output-stationary", "weight-stationary", "best of each GEMM"):
        table.add_column(column, justify="left" if column == "layer" else "right")
    return table


def _environment(folder):
    """The Python of an environment with SCALE-Sim in `folder`, made unless it is there and whole."""
    python, mark = folder / "bin" / "python", folder / "requirements"
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder.parent / ".scalesim.lock", "installs SCALE-Sim"):
        asked = "\n".join([*REQUIREMENTS, sys.version, str(folder)])
        if mark.exists() and mark.read_text(encoding="utf-8") == asked:
            return python
        mark.unlink(missing_ok=True)
        print("installing SCALE-Sim into an environment of its own ...", file=sys.stderr, flush=True)
        log = folder.parent / "scalesim.log"
        with open(log, "w", encoding="utf-8") as output:
            for command in (
                [sys.executable, "-m", "venv", "--clear", str(folder)],
                [str(python), "-m", "pip", "install", "--disable-pip-version-check", *REQUIREMENTS],
            ):
                result = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, check=False)
                if result.returncode:
                    raise ToolError(f"SCALE-Sim can't be installed (exit {result.returncode}); see {log}")
        mark.write_text(asked, encoding="utf-8")
    return python


def product_cycles(python, products, side) -> list[dict[str, int]]:
    """What SCALE-Sim says of each product: a list of {dataflow: cycles}."""
    asked = json.dumps([[side, side, *sizes] for _, *sizes in products])
    # SCALE-Sim's environment isn't to see this one's packages.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    result = subprocess.run(
        [str(python), str(SCRIPT)], input=asked, capture_output=True, text=True, check=False, env=environment
    )
    if result.returncode:
        lines = result.stderr.strip().splitlines() or ["no message"]
        raise ToolError(f"SCALE-Sim failed (exit {result.returncode}): {lines[-1]}")
    return json.loads(result.stdout)
