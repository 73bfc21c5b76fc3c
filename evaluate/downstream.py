"""Downstream tasks on the embeddings of all models."""

import numpy as np

from bertha.evaluate.neighbours import compare_neighbours
from bertha.evaluate.probe import compare_probes, pair_features
from bertha.evaluate.report import TaskResult
from bertha.evaluate.similarity import compare_similarities

__all__ = ["NEIGHBOURS", "neighbours", "run_task", "task_texts"]

NEIGHBOURS = 2000
"""Sentences among which the nearest one is looked for."""


def task_texts(task) -> list[str]:
    """The different texts that a task needs embeddings of; about similarity nothing is trained."""
    parts = [task.test] if task.similarity else [task.train, task.test]
    return list(dict.fromkeys(one for part in parts for texts in part.texts for one in texts))


def run_task(task, embeddings, *, seeds, advance=lambda: None) -> TaskResult:
    """What a task makes of each model's embeddings.

    Parameters
    ----------
    task : bertha.models.tasks.Task
    embeddings : dict of str to float32 [texts, D]
        Of `task_texts(task)`, by model's name, the float model's first.
    seeds : int
        Of a probe.
    advance : callable
        Is called after every probe.
    """
    number = {one: index for index, one in enumerate(task_texts(task))}
    reference, results = _separated(embeddings)
    if task.similarity:
        comparisons = compare_similarities(reference, results, _indices(number, task.test), task.test.labels)
        rows = {"test": len(task.test.labels)}
        return TaskResult(name=task.name, measure="spearman", rows=rows, comparisons=comparisons)
    indices = np.concatenate([_indices(number, task.train), _indices(number, task.test)])
    comparisons = compare_probes(
        pair_features(reference, indices),
        {name: pair_features(vectors, indices) for name, vectors in results.items()},
        [*task.train.labels, *task.test.labels],
        len(task.train.labels),
        seeds,
        advance,
    )
    rows = {
        "train": len(task.train.labels),
        "test": len(task.test.labels),
        "classes": len(task.classes),
        "seeds": seeds,
    }
    return TaskResult(name=task.name, measure="accuracy", rows=rows, comparisons=comparisons)


def neighbours(embeddings) -> TaskResult:
    """How often each model finds the float model's nearest neighbour among different texts."""
    reference, results = _separated(embeddings)
    return TaskResult(
        name="neighbours",
        measure="same neighbour",
        rows={"test": len(reference)},
        comparisons=compare_neighbours(reference, results),
    )


def _indices(number, part):
    return np.array([[number[one] for one in texts] for texts in part.texts])


def _separated(embeddings):
    """The float model's, and the others' by name."""
    (_, reference), *results = embeddings.items()
    return reference, dict(results)
