"""Results of benchmarks as a table in the terminal, as JSON, and in docs/results.md."""

import json
import os
from pathlib import Path

from rich.table import Table

__all__ = ["BEGIN", "END", "result_table", "update_document", "write_json"]

BEGIN, END = "<!-- bertha bench: begin -->", "<!-- bertha bench: end -->"
"""What the generated part of docs/results.md stands between."""

_ANSWERS = {True: "yes", False: "NO", None: "?"}


def result_table(results) -> Table:
    """Name, target, measured value, whether it is met, how it was measured, and what it was made of."""
    table = Table(title="Benchmarks", title_justify="left")
    table.add_column("name", no_wrap=True)
    table.add_column("target", justify="right", no_wrap=True)
    table.add_column("measured", justify="right", no_wrap=True)
    table.add_column("ok", no_wrap=True)
    table.add_column("how", no_wrap=True)
    table.add_column("what")
    for result in results:
        detail = f": {result.detail}" if result.detail else ""
        table.add_row(
            result.benchmark.name,
            str(result.benchmark.target),
            _shown(result),
            _ANSWERS[result.ok],
            result.how,
            f"{result.benchmark.what}{detail}",
        )
    return table


def write_json(path, results) -> None:
    """Writes the results as a list, whole or not at all."""
    _replace(Path(path), json.dumps([result.as_dict() for result in results], indent=1) + "\n")


def update_document(path, results) -> bool:
    """Puts the results between the marks of a document; whether it has the marks."""
    path = Path(path)
    text = path.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        return False
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    _replace(path, f"{before}{BEGIN}\n{_markdown(results)}{END}{after}")
    return True


def _markdown(results):
    lines = ["| benchmark | target | measured | met | how |", "|---|---|---|---|---|"]
    for result in results:
        target, measured = result.benchmark.target, _shown(result)
        answer = {True: "yes", False: "**no**", None: ""}[result.ok]
        what = result.benchmark.what + (f" ({result.detail})" if result.detail else "")
        lines.append(
            f"| `{result.benchmark.name}`: {what} | {target} | {measured} | {answer} | {result.how} |"
        )
    return "\n".join(lines) + "\n"


def _shown(result):
    return "" if result.value is None else result.benchmark.target.show(result.value)


def _replace(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.new")
    draft.write_text(text, encoding="utf-8")
    os.replace(draft, path)
