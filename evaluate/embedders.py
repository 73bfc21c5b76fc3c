"""The two sides that are compared: the float model and an integer model, each from sentences to embeddings."""

import os
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch

from bertha.evaluate.digest import float_digest, integer_digest
from bertha.golden import integer_model
from bertha.golden.model import QuantizedModel
from bertha.models.embedding import embedding_sums
from bertha.models.encoder import Encoder
from bertha.models.text import trim

__all__ = ["FloatEmbedder", "IntegerEmbedder", "pooled", "processors"]

PADDED_TOKENS = 2048
"""Tokens, padding included, that the float model takes at once."""


@dataclass(frozen=True, eq=False)
class FloatEmbedder:
    """PyTorch's model: what is taken to be right."""

    encoder: Encoder
    threads = 1  # at once: PyTorch has threads of its own

    @property
    def name(self) -> str:
        """What tables call it."""
        return "fp32"

    @cached_property
    def digest(self) -> str:
        """A hash of all that its embeddings depend on beside the sentences."""
        return float_digest(self.encoder)

    def states(self, sentences) -> list[list[np.ndarray]]:
        """float32 [s, hidden] of each sentence: the first layer's input, then every layer's output."""
        results = [None] * len(sentences)
        for batch, outputs in self._run(sentences, output_hidden_states=True):
            for row, index in enumerate(batch):
                length = sentences[index].tokens
                results[index] = [state[row, :length].numpy() for state in outputs.hidden_states]
        return results

    def embed(self, sentences) -> np.ndarray:
        """float32 [n, D]: normalised embeddings of the sentences."""
        results = [None] * len(sentences)
        for batch, outputs in self._run(sentences):
            for row, index in enumerate(batch):
                states = outputs.last_hidden_state[row, : sentences[index].tokens].numpy()
                results[index] = pooled(self.encoder, states)
        return np.array(results, np.float32)

    def _run(self, sentences, **options):
        """Indices of a batch, and what the model gives for it."""
        for batch in _batches(sentences):
            ids, mask, segments = _padded([sentences[index] for index in batch])
            with torch.inference_mode():
                yield batch, self.encoder.run(ids, mask, segments, **options)


@dataclass(frozen=True, eq=False)
class IntegerEmbedder:
    """A model quantised by a recipe, run by the bit-exact integer model; the host sums embeddings and pools."""

    encoder: Encoder
    recipe: str
    model: QuantizedModel

    @property
    def name(self) -> str:
        """What tables call it."""
        return self.recipe

    @property
    def threads(self) -> int:
        """Chunks to work on at once."""
        return processors()

    @cached_property
    def digest(self) -> str:
        """A hash of all that its embeddings depend on beside the sentences."""
        return integer_digest(self.encoder, self.model)

    def states(self, sentences, saturations=None) -> list[list[np.ndarray]]:
        """float64 [s, hidden] of each sentence after every layer.

        `saturations` gets the number of saturated values by stream, as `integer_model.run_sentences` counts.
        """
        stream = self._embedded(sentences)
        results = [[] for _ in sentences]
        for index, layer in enumerate(self.model.layers):
            counts = {}
            stream = integer_model.run_sentences(self._single(index), stream, counts)
            for kept, state in zip(results, stream, strict=True):
                kept.append(integer_model.dequantise(state, layer.output_scale))
            if saturations is not None:
                for name, count in counts.items():
                    where = name.replace("layer 0:", f"layer {index}:")
                    saturations[where] = saturations.get(where, 0) + count
        return results

    def embed(self, sentences) -> np.ndarray:
        """float32 [n, D]: normalised embeddings of the sentences."""
        outputs = integer_model.run_sentences(self.model, self._embedded(sentences))
        scale = self.model.output_scale
        vectors = [pooled(self.encoder, integer_model.dequantise(state, scale)) for state in outputs]
        return np.array(vectors, np.float32)

    def _single(self, index):
        """Layer `index` as a model, with the embeddings' LayerNorm if it's the first."""
        layer = self.model.layers[index]
        if not index:
            return replace(self.model, layers=(layer,))
        return QuantizedModel(embedding_scale=layer.input_scale, embedding_norm=None, layers=(layer,))

    def _embedded(self, sentences):
        """What the host gives the accelerator: int16 sums of embeddings."""
        return [
            integer_model.quantise_input(
                embedding_sums(self.encoder, trim(sentence)), self.model.embedding_scale
            )
            for sentence in sentences
        ]


def processors() -> int:
    """Processors that this process may use; `OMP_NUM_THREADS` says fewer."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return min(available, int(asked)) if asked.isdigit() and int(asked) else available


def pooled(encoder, states) -> np.ndarray:
    """The embedding that the model's own pooling makes of a sentence's states [s, hidden], of length 1."""
    vector = encoder.pooling(states, np.ones(len(states), dtype=bool)).astype(np.float64)
    return vector / max(np.linalg.norm(vector), np.finfo(np.float64).tiny)


def _batches(sentences):
    """Indices of sentences of similar length."""
    order = sorted(range(len(sentences)), key=lambda index: sentences[index].tokens)
    batch = []
    for index in order:
        if batch and (len(batch) + 1) * sentences[index].tokens > PADDED_TOKENS:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def _padded(sentences):
    """Token ids, mask and segment ids, as tensors [B, S]."""
    shape = len(sentences), max(sentence.tokens for sentence in sentences)
    ids, segments = (torch.zeros(shape, dtype=torch.long) for _ in range(2))
    mask = torch.zeros(shape, dtype=torch.bool)
    for row, sentence in enumerate(sentences):
        ids[row, : sentence.tokens] = torch.from_numpy(sentence.ids[sentence.mask])
        segments[row, : sentence.tokens] = torch.from_numpy(sentence.segments[sentence.mask])
        mask[row, : sentence.tokens] = True
    return ids, mask, segments
