"""A quantised model as data: the embedding LayerNorm and the layers, each of which writes the next one's operand."""

from dataclasses import dataclass

import numpy as np

from bertha.golden.layer import (
    QuantizedLayer,
    QuantizedNorm,
    check_layer,
    check_norm,
    flatten,
    read_arrays,
    restore,
    write_arrays,
)

__all__ = ["QuantizedModel", "load_model_file", "save_model"]


@dataclass(frozen=True, eq=False, kw_only=True)
class QuantizedModel:
    """An encoder in integers, checked on construction (ValueError).

    A LayerNorm writes the operand of the layer after it, so `embedding_norm` and layer 0's `input_quantize`, and
    layer l's `output_norm` and layer l + 1's `input_quantize`, quantise alike.

    Attributes
    ----------
    embedding_scale : float
        LSB of the host's int16 sums of word, position and segment embeddings.
    embedding_norm : QuantizedNorm or None
        None: the host's int16 input is layer 0's stream itself (its LSB is layer 0's `input_scale`), and layer
        0's `input_quantize` makes the operand.
    layers : tuple of QuantizedLayer
        At least one, all of the same hidden size; heads and FFN width may differ.
    """

    embedding_scale: float
    embedding_norm: QuantizedNorm | None
    layers: tuple[QuantizedLayer, ...]

    def __post_init__(self):
        if not self.layers:
            raise ValueError("a model must have at least one layer, not none")
        if not (np.isfinite(self.embedding_scale) and self.embedding_scale > 0):
            raise ValueError(f"embedding_scale must be positive and finite, not {self.embedding_scale}")
        for index, layer in enumerate(self.layers):
            check_layer(layer)
            if layer.hidden != self.hidden:
                raise ValueError(
                    f"all layers must have the hidden size {self.hidden}, but layer {index} has {layer.hidden}"
                )
        if self.embedding_norm is None:
            if self.embedding_scale != self.layers[0].input_scale:
                raise ValueError(
                    f"without an embedding norm embedding_scale must be layer 0's input_scale "
                    f"{self.layers[0].input_scale}, not {self.embedding_scale}"
                )
        else:
            check_norm("embedding_norm", self.embedding_norm, self.hidden)
            _check_operand("embedding_norm", self.embedding_norm, 0, self.layers[0])
        for index, (layer, following) in enumerate(zip(self.layers, self.layers[1:])):
            _check_operand(f"layer {index}'s output_norm", layer.output_norm, index + 1, following)
            if layer.output_scale != following.input_scale:
                raise ValueError(
                    f"layer {index + 1}'s input_scale must be the output_scale {layer.output_scale} of the layer "
                    f"before it, not {following.input_scale}"
                )

    @property
    def hidden(self) -> int:
        """Features of the residual stream."""
        return self.layers[0].hidden

    @property
    def output_scale(self) -> float:
        """LSB of the model's int16 output."""
        return self.layers[-1].output_scale


def save_model(path, model) -> None:
    """Write a model to an .npz file, whole or not at all (OSError if it can't be)."""
    write_arrays(path, _arrays(model))


def load_model_file(path) -> QuantizedModel:
    """The model that `save_model` wrote.

    Raises
    ------
    OSError
        If the file can't be read.
    ValueError
        If it isn't a model's: damaged, or with arrays of another type, shape or range.
    """
    return read_arrays(path, _build)


def _arrays(model):
    yield "embedding_scale", np.asarray(model.embedding_scale)
    yield "layers", np.asarray(len(model.layers))
    if model.embedding_norm is not None:
        yield from flatten("embedding_norm.", model.embedding_norm)
    for index, layer in enumerate(model.layers):
        yield from flatten(f"layer{index}.", layer)


def _build(arrays):
    normed = any(name.startswith("embedding_norm.") for name in arrays)
    return QuantizedModel(
        embedding_scale=float(arrays["embedding_scale"]),
        embedding_norm=restore("embedding_norm.", QuantizedNorm, arrays) if normed else None,
        layers=tuple(
            restore(f"layer{index}.", QuantizedLayer, arrays) for index in range(int(arrays["layers"]))
        ),
    )


def _check_operand(name, norm, index, layer):
    """The operand that `norm` writes must be the one that the layer's `input_quantize` would make."""
    operand = layer.input_quantize
    if not (
        np.array_equal(norm.mult, operand.mult)
        and norm.mult_shift == operand.mult_shift
        and np.array_equal(norm.residue, operand.residue)
        and norm.wide == operand.wide
    ):
        raise ValueError(f"{name} must quantise as layer {index}'s input_quantize does, but doesn't")
