"""What to evaluate."""

from dataclasses import dataclass
from pathlib import Path

from bertha.errors import UserError
from bertha.quantize.recipes import RECIPES, check_recipe

__all__ = ["EvaluationOptions"]

ROWS = (2000, 1000)
INSTALLED_ROWS = {"reviews-short": (1400, 700), "reviews-long": (300, 150)}
"""Rows of a task to train and to test with, unless asked for others: what takes minutes and not hours."""


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions:
    """What to evaluate, checked on construction.

    Attributes
    ----------
    model : str
    recipes : tuple of str
    preset : str
        The accelerator whose cycles are predicted.
    tokens : int
        Of the longest text, and of the program whose cycles are predicted.
    sentences : int or None
        Of the corpus, drawn from it; None: all.
    seed : int
        Which texts.
    tasks : bool
        Whether there are downstream tasks at all.
    folders : tuple of Path
        Of tasks beside the film reviews.
    train, test : int or None
        Rows of a task to train and to test with, at most; None: some thousand.
    everything : bool
        All rows of every task.
    seeds : int
        Of the rows that a probe trains with.

    Raises
    ------
    UserError
        If a recipe is unknown or given twice, or folders are given without tasks.
    """

    model: str = "minilm"
    recipes: tuple[str, ...] = RECIPES
    preset: str = "edge16"
    tokens: int = 128
    sentences: int | None = None
    seed: int = 0
    tasks: bool = True
    folders: tuple[Path, ...] = ()
    train: int | None = None
    test: int | None = None
    everything: bool = False
    seeds: int = 5

    def __post_init__(self):
        for recipe in self.recipes:
            check_recipe(recipe)
        if len(set(self.recipes)) < len(self.recipes) or not self.recipes:
            raise UserError(f"recipes must be different ones, not {' '.join(self.recipes) or 'none'}")
        if self.folders and not self.tasks:
            raise UserError("task folders must not be given together with no tasks")

    def rows(self, task) -> dict[str, int | None]:
        """Most rows to train and to test with, of a task called so; None: all."""
        train, test = (None, None) if self.everything else INSTALLED_ROWS.get(task, ROWS)
        return {"train": self.train or train, "test": self.test or test}
