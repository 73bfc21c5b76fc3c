"""Labelled texts as tensors: rows of about one length together, so that little is padding."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from bertha.models.text import Sentence, tokenize, trim

__all__ = ["Batch", "by_length", "label_sentences", "pad_batch"]


@dataclass(frozen=True, eq=False)
class Batch:
    """Some rows of a task.

    Attributes
    ----------
    rows : list of int
        Which ones.
    ids, mask, segments : int64 [B, S]
        mask is 1 for real tokens.
    labels : int64 [B]
    """

    rows: list
    ids: torch.Tensor
    mask: torch.Tensor
    segments: torch.Tensor
    labels: torch.Tensor


def label_sentences(encoder, part, longest=None) -> list[Sentence]:
    """The rows' texts or pairs as sentences of their own lengths, cut to `longest` tokens and to the model's limit."""
    limit = encoder.config.max_position_embeddings
    limit = min(limit, encoder.max_seq_length or limit, longest or limit)
    texts = [row[0] if len(row) == 1 else tuple(row) for row in part.texts]
    return [trim(sentence) for sentence in tokenize(encoder, texts, limit)]


def pad_batch(sentences, numbers, rows, padding) -> Batch:
    """Rows of a task, padded to the longest one with the token `padding`."""
    width = max(sentences[row].tokens for row in rows)
    shape = len(rows), width
    ids = torch.full(shape, padding, dtype=torch.long)
    mask, segments = torch.zeros(shape, dtype=torch.long), torch.zeros(shape, dtype=torch.long)
    for place, row in enumerate(rows):
        sentence = sentences[row]
        ids[place, : sentence.tokens] = torch.from_numpy(sentence.ids)
        mask[place, : sentence.tokens] = 1
        segments[place, : sentence.tokens] = torch.from_numpy(sentence.segments)
    return Batch(list(rows), ids, mask, segments, torch.tensor([numbers[row] for row in rows]))


def by_length(sentences, size, generator=None) -> Iterator[list[int]]:
    """Rows in batches of about one length.

    In ascending order, or with a `random.Random`: rows of nearly the same length are mixed, and so are the batches.
    """
    order = list(range(len(sentences)))
    if generator is None:
        order.sort(key=lambda row: sentences[row].tokens)
    else:
        order.sort(key=lambda row: sentences[row].tokens * generator.uniform(0.9, 1.1))
    batches = [order[start : start + size] for start in range(0, len(order), size)]
    if generator is not None:
        generator.shuffle(batches)
    yield from batches
