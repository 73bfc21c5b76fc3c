"""A classification head, on the host: from a sentence's first hidden state to the scores of its labels."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from torch.nn import functional

from bertha.models.errors import ModelError

__all__ = ["Classifier", "find_classifier", "head_function"]


@dataclass(frozen=True)
class _Head:
    """Names of a family's two layers, and the function between them."""

    dense: str
    out: str
    function: Callable


_HEADS = {
    "bert": _Head("pooler.dense", "classifier", torch.tanh),
    "roberta": _Head("classifier.dense", "classifier.out_proj", torch.tanh),
    "xlm-roberta": _Head("classifier.dense", "classifier.out_proj", torch.tanh),
    "distilbert": _Head("pre_classifier", "classifier", functional.relu),
    "electra": _Head("classifier.dense", "classifier.out_proj", functional.gelu),
}
"""As in Hugging Face's `...ForSequenceClassification` of each."""

_PROBLEMS = ("regression", "single_label_classification", "multi_label_classification")


@dataclass(frozen=True, eq=False)
class Classifier:
    """Scores by label, from the encoder's output.

    Attributes
    ----------
    labels : tuple of str
        In the order of the scores.
    problem : str
        `single_label_classification`, `multi_label_classification` or `regression`.
    dense, out : (Tensor, Tensor)
        Weight [out, in] and bias of the two layers, float32.
    function : callable
        Between them.
    """

    labels: tuple
    problem: str
    dense: tuple = field(repr=False)
    out: tuple = field(repr=False)
    function: Callable = field(repr=False)

    def __call__(self, hidden) -> np.ndarray:
        """Scores (logits), float32 [labels], of one sentence's hidden states [S, H]: the first one decides."""
        first = torch.from_numpy(np.array(hidden[0], dtype=np.float32))
        middle = self.function(functional.linear(first, *self.dense))
        return functional.linear(middle, *self.out).numpy()

    def probabilities(self, hidden) -> np.ndarray:
        """As the scores, but softmax or (several labels at once) sigmoid; a regression's as they are."""
        scores = torch.from_numpy(self(hidden))
        if self.problem == "single_label_classification":
            scores = torch.softmax(scores, dim=0)
        elif self.problem == "multi_label_classification":
            scores = torch.sigmoid(scores)
        return scores.numpy()

    def label(self, hidden) -> str:
        """The label with the highest score."""
        return self.labels[int(np.argmax(self(hidden)))]


def head_function(family) -> Callable:
    """The function between the two layers of the head of a family, by its name."""
    return _HEADS[family].function


def find_classifier(config, family, weights, plain, hidden, path) -> Classifier | None:
    """The classification head of a checkpoint, or None if it has none.

    It has one if `architectures` says ForSequenceClassification, or says nothing and the weights are there.

    Parameters
    ----------
    config : dict
        config.json.
    family : Family
    weights : Weights
    plain : dict of str to Tensor
        As `weights.plain()`.
    hidden : int
    path : Path
        Of config.json, for errors.

    Raises
    ------
    ModelError
        If weights are missing, or don't fit the labels.
    """
    head = _HEADS[family.name]
    names = [f"{layer}.{part}" for layer in (head.dense, head.out) for part in ("weight", "bias")]
    missing = [name for name in names if name not in plain]
    architectures = config.get("architectures")
    if isinstance(architectures, list) and architectures:
        if not any(str(name).endswith("ForSequenceClassification") for name in architectures):
            return None
        if missing:
            raise ModelError(f"{weights.path} must hold the classification head, but {missing[0]} is missing")
    elif missing:
        return None
    rows = len(plain[f"{head.out}.weight"]) if plain[f"{head.out}.weight"].ndim else 0
    labels = _labels(config, rows, path)
    shapes = ([hidden, hidden], [hidden], [rows, hidden], [rows])
    tensors = [weights.get(plain, name, shape) for name, shape in zip(names, shapes)]
    problem = config.get("problem_type")
    if problem is None:
        problem = "regression" if rows == 1 else "single_label_classification"
    if problem not in _PROBLEMS:
        raise ModelError(f"{path} must give a problem_type of {', '.join(_PROBLEMS)}, not {problem!r}")
    return Classifier(labels, problem, tuple(tensors[:2]), tuple(tensors[2:]), head.function)


def _labels(config, rows, path):
    """id2label in the order of the ids, which are strings in JSON."""
    named = config.get("id2label")
    if named is None:
        return tuple(f"LABEL_{number}" for number in range(rows))
    try:
        labels = {int(number): str(label) for number, label in named.items()}
    except (AttributeError, ValueError):
        raise ModelError(f"{path} must give labels by number in id2label, not {named!r}") from None
    if sorted(labels) != list(range(rows)):
        raise ModelError(f"{path} must name the head's {rows} labels in id2label, but names {len(labels)}")
    return tuple(labels[number] for number in range(rows))
