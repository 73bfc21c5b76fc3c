"""What an evaluation found, as tables to read and as JSON."""

import json
import math
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from bertha.evaluate.comparison import Comparison
from bertha.evaluate.corpus_agreement import SHORT_TOKENS, CorpusAgreement
from bertha.evaluate.cost import Cost

__all__ = ["Evaluation", "RecipeResult", "TaskResult", "corpus_tables", "task_tables", "write_report"]

WORST, SHOWN = 2, 60
"""Sentences a recipe that are shown, and their letters."""


@dataclass(frozen=True, kw_only=True)
class RecipeResult:
    """A recipe's agreement with PyTorch on the corpus, and its cost."""

    agreement: CorpusAgreement
    cost: Cost

    def as_json(self) -> dict:
        """Its entry in report.json."""
        agreement = self.agreement
        return {
            **asdict(agreement.overall),
            **asdict(self.cost),
            "short": asdict(agreement.short) if agreement.short else None,
            "domains": {name: asdict(figures) for name, figures in agreement.domains.items()},
            "snr_db": [value if math.isfinite(value) else None for value in agreement.snr_db],
            "saturations": agreement.saturations,
            "saturated_share": agreement.saturated_share,
            "cosines": agreement.cosines,
        }


@dataclass(frozen=True, kw_only=True)
class TaskResult:
    """What a task made of each recipe's embeddings.

    Attributes
    ----------
    name : str
    measure : str
        `accuracy`, `spearman`, or `same neighbour`.
    rows : dict of str to int
        Rows to train and to test with, and classes, where there are such.
    comparisons : dict of str to Comparison
        By recipe.
    """

    name: str
    measure: str
    rows: dict
    comparisons: dict[str, Comparison]

    def as_json(self) -> dict:
        """Its entry in report.json."""
        return {
            "measure": self.measure,
            **self.rows,
            "recipes": {name: asdict(comparison) for name, comparison in self.comparisons.items()},
        }


@dataclass(kw_only=True)
class Evaluation:
    """Everything that was found.

    Attributes
    ----------
    about : dict
        Model, preset, tokens, seeds.
    texts, domains : list of str
        Of the corpus.
    recipes : dict of str to RecipeResult
    tasks : list of TaskResult
    """

    about: dict
    texts: list
    domains: list
    recipes: dict = field(default_factory=dict)
    tasks: list = field(default_factory=list)

    def as_json(self) -> dict:
        """What report.json holds: `recipes` and `tasks` by name, and what they are of."""
        return {
            **self.about,
            "recipes": {name: result.as_json() for name, result in self.recipes.items()},
            "tasks": {task.name: task.as_json() for task in self.tasks},
        }


def write_report(path, evaluation) -> None:
    """report.json, whole or not at all."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text(json.dumps(evaluation.as_json(), indent=1) + "\n", encoding="utf-8")
    partial.replace(path)


def corpus_tables(evaluation) -> list[Table]:
    """Tables of recipes, domains, the worst sentences, layers and saturations."""
    makers = (_recipes, _domains, _worst, _layers, _saturations)
    return [make(evaluation) for make in makers]


def task_tables(evaluation) -> list[Table]:
    """A table of all tasks, if there are any."""
    if not evaluation.tasks:
        return []
    table = _table(
        "Downstream tasks, integer minus fp32 [95 % interval]", ["task", "rows", "fp32"], evaluation.recipes
    )
    for task in evaluation.tasks:
        percent = task.measure == "accuracy"
        reference = next(iter(task.comparisons.values())).reference
        table.add_row(
            escape(f"{task.name}, {task.measure}"),
            " + ".join(str(task.rows[name]) for name in ("train", "test") if name in task.rows),
            "" if task.measure == "same neighbour" else _value(reference, percent),
            *(escape(_compared(task, name)) for name in evaluation.recipes),
        )
    return [table]


def _recipes(evaluation):
    about = evaluation.about
    table = Table(
        title=f"{escape(about['model'])}: cosine of embeddings to PyTorch's, {len(evaluation.texts)} unseen "
        f"sentences; {about['tokens']} tokens on {about['preset']}"
    )
    short = f"{SHORT_TOKENS[0]}-{SHORT_TOKENS[-1]} tokens: min / mean"
    for column in ("recipe", "min", "1 %", "mean", short, "MACs", "cycles", "more cycles"):
        table.add_column(column, justify="left" if column == "recipe" else "right")
    first = next(iter(evaluation.recipes.values()))
    for name, result in evaluation.recipes.items():
        overall, few = result.agreement.overall, result.agreement.short
        table.add_row(
            name,
            *(f"{value:.5f}" for value in (overall.min, overall.p1, overall.mean)),
            f"{few.min:.5f} / {few.mean:.5f}" if few else "",
            f"{result.cost.macs:,}",
            f"{result.cost.cycles:,}",
            f"{100 * (result.cost.cycles / first.cost.cycles - 1):+.1f} %",
        )
    return table


def _worst(evaluation):
    """The sentences with the lowest cosines."""
    table = Table(title="Worst sentences")
    for column in ("recipe", "cosine", "domain", "text"):
        table.add_column(column, justify="right" if column == "cosine" else "left")
    for name, result in evaluation.recipes.items():
        for index in result.agreement.worst(WORST):
            shown = " ".join(evaluation.texts[index].split())
            shown = shown if len(shown) <= SHOWN else shown[: SHOWN - 1] + "…"
            cosine = f"{result.agreement.cosines[index]:.5f}"
            table.add_row(name, cosine, escape(evaluation.domains[index]), escape(shown))
    return table


def _domains(evaluation):
    table = _table("Cosine by domain, min / mean", ["domain", "sentences"], evaluation.recipes)
    first = next(iter(evaluation.recipes.values()))
    for domain, figures in first.agreement.domains.items():
        cells = []
        for result in evaluation.recipes.values():
            found = result.agreement.domains[domain]
            cells.append(f"{found.min:.5f} / {found.mean:.5f}")
        table.add_row(escape(domain), str(figures.sentences), *cells)
    return table


def _layers(evaluation):
    table = _table("SNR in dB after each layer, all tokens", ["layer"], evaluation.recipes)
    for layer in range(len(next(iter(evaluation.recipes.values())).agreement.snr_db)):
        figures = [result.agreement.snr_db[layer] for result in evaluation.recipes.values()]
        table.add_row(str(layer), *(f"{value:.1f}" for value in figures))
    return table


def _saturations(evaluation):
    table = _table("Saturated values in a million, all layers", ["stream"], evaluation.recipes)
    shares = [result.agreement.saturated_share for result in evaluation.recipes.values()]
    for stream in dict.fromkeys(name for share in shares for name in share):
        table.add_row(stream, *(f"{1e6 * share.get(stream, 0):.1f}" for share in shares))
    return table


def _table(title, left, recipes):
    table = Table(title=title)
    for number, column in enumerate((*left, *recipes)):
        table.add_column(column, justify="right" if number else "left")
    return table


def _value(value, percent):
    return f"{100 * value:.2f} %" if percent else f"{value:.4f}"


def _compared(task, name):
    comparison = task.comparisons[name]
    if task.measure == "same neighbour":
        return f"{100 * comparison.result:.1f} %"
    scale, digits = (100, 2) if task.measure == "accuracy" else (1, 4)
    low, high = (scale * bound for bound in comparison.interval)
    return f"{scale * comparison.difference:+.{digits}f} [{low:+.{digits}f}, {high:+.{digits}f}]"
