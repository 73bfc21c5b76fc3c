"""A task's rows at a layer's input, the layers above run on them, and how right the model is."""

from dataclasses import dataclass

import torch
from torch.nn import functional

from bertha.golden import floating

__all__ = ["RowBatch", "Score", "embed_rows", "logits_of", "run_layers", "score"]

BATCH = 64


@dataclass(frozen=True, eq=False)
class RowBatch:
    """Rows of about one length.

    Attributes
    ----------
    states : float32 [B, S, hidden]
    hidden_keys : float32 [B, 1, 1, S]
        What is added to scores: far below 0 for padding.
    real : bool [B, S]
    labels : int64 [B]
    """

    states: torch.Tensor
    hidden_keys: torch.Tensor
    real: torch.Tensor
    labels: torch.Tensor

    def at(self, states) -> "RowBatch":
        """The same rows with other hidden states."""
        return RowBatch(states, self.hidden_keys, self.real, self.labels)


@dataclass(frozen=True, eq=False)
class Score:
    """How right a model is, row by row.

    Attributes
    ----------
    losses : float32 [rows]
    right : bool [rows]
    """

    losses: torch.Tensor
    right: torch.Tensor

    @property
    def loss(self) -> float:
        return float(self.losses.mean())

    @property
    def accuracy(self) -> float:
        return float(self.right.float().mean())


def embed_rows(encoder, sentences, numbers) -> list[RowBatch]:
    """Sentences and their labels' numbers at layer 0's input, in ascending order of their lengths."""
    order = sorted(range(len(sentences)), key=lambda row: sentences[row].tokens)
    batches = []
    for start in range(0, len(order), BATCH):
        rows = order[start : start + BATCH]
        embedded = floating.embedded(encoder, [sentences[row] for row in rows])
        batches.append(RowBatch(*embedded, torch.tensor([numbers[row] for row in rows])))
    return batches


def run_layers(layers, batches) -> list[RowBatch]:
    """The rows behind some layers."""
    found = []
    with torch.inference_mode():
        for batch in batches:
            states = batch.states
            for layer in layers:
                states = floating.first(layer(states, batch.hidden_keys))
            found.append(batch.at(states))
    return found


def logits_of(classifier, states) -> torch.Tensor:
    """Scores [B, labels] of the last layer's hidden states [B, S, hidden]."""
    return functional.linear(
        classifier.function(functional.linear(states[:, 0], *classifier.dense)), *classifier.out
    )


def score(classifier, layers, batches) -> Score:
    """How right the model is whose layers from the batches' on these are."""
    losses, right = [], []
    for batch in run_layers(layers, batches):
        logits = logits_of(classifier, batch.states)
        losses.append(functional.cross_entropy(logits, batch.labels, reduction="none"))
        right.append(logits.argmax(dim=1) == batch.labels)
    return Score(torch.cat(losses), torch.cat(right))
