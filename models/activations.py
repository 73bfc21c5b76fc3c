"""Activations of the feed-forward network, by the names that Hugging Face's configs give them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch.nn import functional

from bertha.models.errors import ModelError

__all__ = ["ACTIVATIONS", "Activation", "find_activation"]


@dataclass(frozen=True)
class Activation:
    """An elementwise function.

    Attributes
    ----------
    name : str
        One of `ACTIVATIONS`: configs have several names for some.
    function : callable
        From a tensor to a tensor of the same shape and type.
    """

    name: str
    function: Callable[[torch.Tensor], torch.Tensor]

    def __call__(self, values) -> np.ndarray:
        """The function of an array of numbers, in float64."""
        return self.function(torch.from_numpy(np.array(values, dtype=np.float64))).numpy()


def _quick_gelu(x):
    """Hendrycks and Gimpel, "Gaussian Error Linear Units" (2016), section 2: x * sigmoid(1.702 x)."""
    return x * torch.sigmoid(1.702 * x)


ACTIVATIONS = {
    "gelu": functional.gelu,
    "gelu_tanh": partial(functional.gelu, approximate="tanh"),
    "relu": functional.relu,
    "silu": functional.silu,
    "quick_gelu": _quick_gelu,
}

_NAMES = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_accurate": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_python_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "quick_gelu": "quick_gelu",
}
"""Names in config.json; some differ in how they are computed, by rounding only."""


def find_activation(hidden_act, where="the model") -> Activation:
    """The activation that a config calls `hidden_act`.

    Raises
    ------
    ModelError
        If there is none of that name here; it begins with `where`.
    """
    name = _NAMES.get(hidden_act) if isinstance(hidden_act, str) else None
    if name is None:
        raise ModelError(
            f"{where} must describe a BERT encoder with the activation {', '.join(_NAMES)}, "
            f"not hidden_act {hidden_act!r}"
        )
    return Activation(name, ACTIVATIONS[name])
