"""What fine-tuning and the search may look at: parts of a task's training set, and nothing of its test set."""

import random
from dataclasses import dataclass

from bertha.errors import UserError
from bertha.models.tasks import Part, Task

__all__ = ["Training", "majority_rate", "training_parts"]

HELD_OUT = 0.1
"""Of the training set, where there is no file to validate with."""


@dataclass(frozen=True)
class Training:
    """A task without its test set.

    Attributes
    ----------
    name : str
    classes : tuple of str
        The labels of the training set, sorted: their numbers are the model's.
    fit : Part
        Rows to train and to calibrate with.
    judge : Part
        Rows that no weight was fitted to: the best epoch, and what may be pruned, is told by them.
    """

    name: str
    classes: tuple
    fit: Part
    judge: Part

    def limited(self, *, fit=None, judge=None, seed=0) -> "Training":
        """With so many rows at most, chosen at random (None: all)."""
        return Training(self.name, self.classes, self.fit.limited(fit, seed), self.judge.limited(judge, seed))

    def numbers(self, part) -> list[int]:
        """The labels of a part's rows as numbers of classes."""
        place = {label: number for number, label in enumerate(self.classes)}
        return [place[label] for label in part.labels]


def training_parts(task: Task) -> Training:
    """The part of a task that may be looked at before the last test.

    Where the folder has no file to validate with, a tenth of the training set is set apart. It is drawn with a fixed seed,
    so what fine-tuning didn't train with is what the search is judged by.

    Raises
    ------
    UserError
        If the task is about similarity, has rows of one class only, or a label that isn't trained with.
    """
    if task.similarity:
        raise UserError(f"task {task.name} must have classes for labels, not similarities")
    classes = tuple(sorted(set(task.train.labels)))
    if len(classes) < 2:
        raise UserError(
            f"task {task.name} must have two classes at least among the {len(task.train.labels)} rows that "
            f"it trains with, but all are {classes[0]!r}"
        )
    for name, part in (("test", task.test), ("validation", task.validation)):
        unknown = sorted(set(part.labels) - set(classes)) if part else []
        if unknown:
            raise UserError(
                f"task {task.name} must train with every label of its {name} set, but not with {unknown[0]!r}"
            )
    if task.validation is not None:
        return Training(task.name, classes, task.train, task.validation)
    rows = list(range(len(task.train.labels)))
    random.Random("held out").shuffle(rows)
    count = min(max(1, round(HELD_OUT * len(rows))), len(rows) - 1)
    fit, judge = (_rows(task.train, part) for part in (rows[count:], rows[:count]))
    return Training(task.name, classes, fit, judge)


def majority_rate(labels) -> float:
    """How often one is right who always says the most frequent label."""
    return max(labels.count(label) for label in set(labels)) / len(labels)


def _rows(part, rows):
    rows = sorted(rows)
    return Part(tuple(part.texts[row] for row in rows), tuple(part.labels[row] for row in rows))
