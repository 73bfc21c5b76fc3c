"""From a sentence's hidden states to its embedding, on the host, as sentence-transformers does."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

from bertha.models.errors import ModelError
from bertha.models.folders import read_modules
from bertha.models.weights import read_json, read_weights

__all__ = ["Dense", "Pooling"]

MODES = ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")
"""In the order in which sentence-transformers joins several."""

_FLAGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}

_DENSE_ACTIVATIONS = {
    "Identity": lambda x: x,
    "Tanh": torch.tanh,
    "ReLU": functional.relu,
    "GELU": functional.gelu,
    "SiLU": functional.silu,
    "Sigmoid": torch.sigmoid,
}

_TINY = 1e-12
"""Norms below it count as it, as in PyTorch's `normalize`."""


@dataclass(frozen=True, eq=False)
class Dense:
    """A linear layer behind the pooling.

    Attributes
    ----------
    weight : float32 [out, in]
    bias : float32 [out]
    activation : str
        Name of PyTorch's module.
    """

    weight: np.ndarray
    bias: np.ndarray
    activation: str

    def __call__(self, vector) -> np.ndarray:
        """The layer of a vector, in float64."""
        values = self.weight.astype(np.float64) @ vector + self.bias
        return _DENSE_ACTIVATIONS[self.activation](torch.from_numpy(values)).numpy()


@dataclass(frozen=True, eq=False)
class Pooling:
    """How a model makes one vector of a sentence.

    Attributes
    ----------
    modes : tuple of str
        Some of `MODES`; the vectors of several are joined.
    dense : tuple of Dense
    normalize : bool
        Whether the vector is divided by its length at the end.
    """

    modes: tuple = ("mean",)
    dense: tuple = ()
    normalize: bool = False

    @classmethod
    def from_folder(cls, folder, hidden=None) -> "Pooling":
        """What modules.json and 1_Pooling/config.json say; the mean of the tokens if there are none.

        Parameters
        ----------
        folder : Path
            The model's, where modules.json is.
        hidden : int, optional
            The encoder's hidden size, for the modules to fit.

        Raises
        ------
        ModelError
            If a module isn't known here, comes in another order than pooling, linear layers and
            normalisation, or doesn't fit the one before it.
        """
        folder = Path(folder)
        modes, dense, normalize = ("mean",), [], False
        stage = 0
        for kind, place in read_modules(folder)[1:]:
            stages = {"Pooling": (0, 1), "Dense": (1, 1), "Normalize": (1, 2)}
            if kind not in stages:
                raise ModelError(
                    f"{folder / 'modules.json'} must name the modules Transformer, Pooling, Dense and "
                    f"Normalize, not {kind}"
                )
            least, after = stages[kind]
            if stage != least:
                raise ModelError(
                    f"{folder / 'modules.json'} must have Transformer, Pooling, Dense and Normalize in this "
                    f"order, but {kind} is in another place"
                )
            stage = after
            if kind == "Pooling":
                modes, width = _read_pooling(place / "config.json", hidden)
            elif kind == "Dense":
                dense.append(_read_dense(place, width))
                width = len(dense[-1].bias)
            else:
                normalize = True
        return cls(modes, tuple(dense), normalize)

    def __call__(self, hidden, mask) -> np.ndarray:
        """The embedding of one sentence.

        Parameters
        ----------
        hidden : float [S, H]
            The encoder's output.
        mask : bool [S]
            The real tokens, at least one.

        Returns
        -------
        float32 [D]
        """
        states = np.asarray(hidden, dtype=np.float64)
        real = states[np.asarray(mask, dtype=bool)]
        if not len(real):
            raise ValueError("a sentence to pool must have at least one token")
        vector = np.concatenate([_pool(mode, states, real) for mode in self.modes])
        for layer in self.dense:
            vector = layer(vector)
        if self.normalize:
            vector = vector / max(np.linalg.norm(vector), _TINY)
        return vector.astype(np.float32)


def _pool(mode, states, real):
    if mode == "cls":
        return states[0]
    if mode == "max":
        return real.max(axis=0)
    if mode == "mean":
        return real.mean(axis=0)
    if mode == "mean_sqrt_len_tokens":
        return real.sum(axis=0) / np.sqrt(len(real))
    if mode == "weightedmean":
        weights = np.arange(1, len(real) + 1)
        return weights @ real / weights.sum()
    return real[-1]


def _read_pooling(path, hidden):
    config = read_json(path)
    named = config.get("pooling_mode")
    if named is not None:
        modes = [named] if isinstance(named, str) else named
    else:
        modes = []
        for key, value in config.items():
            if key.startswith("pooling_mode_") and value is True:
                modes.append(_FLAGS.get(key, key))
    if not isinstance(modes, list) or not modes or any(mode not in MODES for mode in modes):
        raise ModelError(f"{path} must choose of the poolings {', '.join(MODES)}, not {modes!r}")
    width = config.get("word_embedding_dimension", config.get("embedding_dimension", hidden))
    if hidden is not None and width != hidden:
        raise ModelError(f"{path} must pool the encoder's {hidden} channels, not {width!r}")
    return tuple(mode for mode in MODES if mode in modes), width and width * len(set(modes))


def _read_dense(folder, width):
    path = folder / "config.json"
    config = read_json(path)
    name = str(config.get("activation_function", "torch.nn.modules.activation.Tanh")).split(".")[-1]
    if name not in _DENSE_ACTIVATIONS:
        raise ModelError(f"{path} must have the activation {', '.join(_DENSE_ACTIVATIONS)}, not {name!r}")
    inputs, outputs = config.get("in_features"), config.get("out_features")
    if width is not None and inputs != width:
        raise ModelError(f"{path} must take the {width} channels before it, not {inputs!r}")
    weights = read_weights(folder)
    shapes = {"linear.weight": [outputs, inputs], "linear.bias": [outputs]}
    if not config.get("bias", True):
        del shapes["linear.bias"]
    arrays = {key: weights.get(weights.tensors, key, shape).numpy() for key, shape in shapes.items()}
    bias = arrays.get("linear.bias", np.zeros(len(arrays["linear.weight"]), dtype=np.float32))
    return Dense(arrays["linear.weight"], bias, name)
