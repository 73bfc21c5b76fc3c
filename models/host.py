"""What of a model the host computes, without the encoder: tokenizer, embeddings, pooling, classification head."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import BertConfig
from transformers.models.bert.modeling_bert import BertEmbeddings

from bertha.models.classifier import Classifier, head_function
from bertha.models.embedding import ProjectedEmbeddings, embedding_sums
from bertha.models.families import FAMILIES
from bertha.models.pooling import Dense, Pooling
from bertha.models.text import Sentence, tokenize, trim

__all__ = ["HostModel"]

_CONFIG = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "hidden_act",
    "max_position_embeddings",
    "type_vocab_size",
    "layer_norm_eps",
    "pad_token_id",
)
"""What is kept of the configuration."""


@dataclass(frozen=True, eq=False, kw_only=True)
class HostModel:
    """The host's part of a model, in a form that needs no checkpoint.

    Attributes
    ----------
    name, digest, trained, family, pooling, classifier, max_seq_length, lowercase
        As of `bertha.models.encoder.Encoder`.
    config : BertConfig
        The encoder's shape and the embeddings' sizes.
    embeddings : BertEmbeddings or ProjectedEmbeddings
        With their LayerNorm, which is the accelerator's if `embedding_norm`.
    tokenizer : Tokenizer or None
    """

    name: str
    digest: str
    trained: bool
    family: str
    config: BertConfig
    embeddings: BertEmbeddings = field(repr=False)
    tokenizer: Tokenizer | None = field(repr=False)
    pooling: Pooling
    classifier: Classifier | None
    max_seq_length: int | None
    lowercase: bool

    @classmethod
    def from_encoder(cls, encoder) -> "HostModel":
        """The host's part of an `Encoder`; the tables are shared. Of a folder's path its name is kept."""
        folder = Path(encoder.name)
        return cls(
            name=folder.resolve().name if folder.is_dir() else encoder.name,
            digest=encoder.digest,
            trained=encoder.trained,
            family=encoder.family,
            config=encoder.config,
            embeddings=encoder.embeddings,
            tokenizer=encoder.tokenizer,
            pooling=encoder.pooling,
            classifier=encoder.classifier,
            max_seq_length=encoder.max_seq_length,
            lowercase=encoder.lowercase,
        )

    @property
    def tokenizer_file(self) -> str:
        """What errors call the tokenizer."""
        return f"the tokenizer of {self.name}"

    @property
    def embedding_norm(self) -> bool:
        """Whether a LayerNorm of the embeddings comes right before the first layer."""
        return not isinstance(self.embeddings, ProjectedEmbeddings)

    @property
    def has_segments(self) -> bool:
        """Whether tokens of a pair's second text have another segment id than the first one's."""
        return FAMILIES[self.family].segments

    @property
    def longest(self) -> int:
        """Tokens to which its texts are cut: sentence-transformers' own limit, or the last position."""
        positions = self.config.max_position_embeddings
        return min(self.max_seq_length or positions, positions)

    @property
    def dimension(self) -> int:
        """Length of an embedding."""
        if self.pooling.dense:
            return len(self.pooling.dense[-1].bias)
        return self.config.hidden_size * len(self.pooling.modes)

    def tokenize(self, texts, tokens=None) -> list[Sentence]:
        """Sentences of texts or pairs, each of its own length, cut to `longest` and to `tokens`.

        Errors are those of `bertha.models.text.tokenize`.
        """
        limit = self.longest if tokens is None else min(tokens, self.longest)
        return [trim(sentence) for sentence in tokenize(self, texts, limit)]

    def embed(self, sentence) -> np.ndarray:
        """The accelerator's input before it is quantised, float32 [S, hidden]: see `embedding_sums`."""
        return embedding_sums(self, sentence)

    def describe(self) -> dict[str, object]:
        """All but the tensors and the tokenizer, as JSON has it."""
        head = self.classifier
        return {
            "name": self.name,
            "digest": self.digest,
            "trained": self.trained,
            "family": self.family,
            "config": {key: getattr(self.config, key) for key in _CONFIG},
            "embedding_width": self.embeddings.word_embeddings.weight.shape[1],
            "projected": not self.embedding_norm,
            "pooling": {
                "modes": list(self.pooling.modes),
                "dense": [layer.activation for layer in self.pooling.dense],
                "normalize": self.pooling.normalize,
            },
            "classifier": head and {"labels": list(head.labels), "problem": head.problem},
            "max_seq_length": self.max_seq_length,
            "lowercase": self.lowercase,
        }

    def tensors(self) -> dict[str, torch.Tensor]:
        """Embeddings, linear layers behind the pooling, and head, by name."""
        found = {f"embeddings.{name}": tensor for name, tensor in self.embeddings.state_dict().items()}
        for number, layer in enumerate(self.pooling.dense):
            found[f"dense.{number}.weight"] = torch.from_numpy(layer.weight)
            found[f"dense.{number}.bias"] = torch.from_numpy(layer.bias)
        if self.classifier:
            for name in ("dense", "out"):
                weight, bias = getattr(self.classifier, name)
                found[f"classifier.{name}.weight"], found[f"classifier.{name}.bias"] = weight, bias
        return {name: tensor.detach().contiguous() for name, tensor in found.items()}

    def tokenizer_json(self) -> str | None:
        """The tokenizer as tokenizer.json has it, whatever texts it was used for before."""
        if self.tokenizer is None:
            return None
        copy = Tokenizer.from_str(self.tokenizer.to_str())
        copy.no_truncation()
        copy.no_padding()
        return copy.to_str()

    @classmethod
    def restore(cls, description, tensors, tokenizer_json) -> "HostModel":
        """The model of which these are `describe()`, `tensors()` and `tokenizer_json()`.

        Raises
        ------
        KeyError, TypeError, ValueError, RuntimeError
            If they don't fit together.
        """
        values = dict(description)
        config = BertConfig(**values.pop("config"))
        width, projected = values.pop("embedding_width"), values.pop("projected")
        pooling, head = values.pop("pooling"), values.pop("classifier")
        dense = [
            Dense(*(tensors[f"dense.{number}.{part}"].numpy() for part in ("weight", "bias")), activation)
            for number, activation in enumerate(pooling["dense"])
        ]
        tokenizer = None
        if tokenizer_json is not None:
            tokenizer = Tokenizer.from_str(tokenizer_json)
            tokenizer.encode_special_tokens = True  # which isn't kept in the file
        return cls(
            **values,
            config=config,
            embeddings=_embeddings(config, width if projected else None, tensors),
            tokenizer=tokenizer,
            pooling=Pooling(tuple(pooling["modes"]), tuple(dense), pooling["normalize"]),
            classifier=head and _classifier(head, values["family"], tensors),
        )


def _embeddings(config, projected_width, tensors):
    prefix = "embeddings."
    state = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
    with torch.device("meta"):
        if projected_width is None:
            made = BertEmbeddings(config)
        else:
            made = ProjectedEmbeddings(config, projected_width)
    made.load_state_dict(state, assign=True)
    positions = torch.arange(config.max_position_embeddings)[None]
    made.position_ids, made.token_type_ids = positions, torch.zeros_like(positions)
    return made.float().eval().requires_grad_(False)


def _classifier(head, family, tensors):
    layers = [
        tuple(tensors[f"classifier.{name}.{part}"] for part in ("weight", "bias"))
        for name in ("dense", "out")
    ]
    return Classifier(tuple(head["labels"]), head["problem"], *layers, head_function(family))
