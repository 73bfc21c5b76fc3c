"""A quantised encoder layer as data: what the compiler lays out and the integer model computes with.

Weights are [out features, in features], activations [tokens, features]. A linear layer whose input has
duplicates has one more column for each: K runs over the features ascending, then over the duplicates
ascending. The activations there carry what int8 saturation cut off (`bertha.golden.units.residue`).

An operand may be wide: int16, as two signed byte planes (`bertha.golden.units.split_wide`). A linear layer on a
wide operand has no duplicates, and its accumulator is `bertha.golden.units.combine_wide`'s, whose LSB is 16 times
weight times operand LSB.
"""

import uuid
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path

import numpy as np

__all__ = [
    "LINEARS",
    "QuantizedLayer",
    "QuantizedLinear",
    "QuantizedNorm",
    "check_layer",
    "check_norm",
    "flatten",
    "load_layer",
    "read_arrays",
    "restore",
    "save_layer",
    "write_arrays",
]

LINEARS = ("query", "key", "value", "output", "intermediate", "down")
"""Linear layers of a `QuantizedLayer`, in the order of computation."""


@dataclass(frozen=True, eq=False, kw_only=True)
class QuantizedLinear:
    """int8 weights and the requantisation of each output feature.

    Attributes
    ----------
    weight : int8 [out, in + d]
        The last d columns are copies of the columns `duplicates`.
    duplicates : int64 [d]
        Input features that are duplicated, ascending.
    bias : int32 [out]
        In units of the accumulator.
    mult, shift : uint16, uint8 [out]
        int16 result = sat16(rhu((accumulator + bias) * mult, shift)).
    post_shift : uint8 [out]
        Right shift (0 to 15) from the int16 result to int8.
    """

    weight: np.ndarray
    duplicates: np.ndarray
    bias: np.ndarray
    mult: np.ndarray
    shift: np.ndarray
    post_shift: np.ndarray

    @property
    def in_features(self) -> int:
        """Input features, duplicates not counted."""
        return self.weight.shape[1] - len(self.duplicates)


@dataclass(frozen=True, eq=False, kw_only=True)
class QuantizedNorm:
    """Parameters of a LAYERNORM pass, or of a QUANTIZE pass (gamma and beta are zero then).

    Attributes
    ----------
    gamma, beta : int16 [H]
    mult : uint16 [H]
        int16 result to int8: w = sat16(rhu(y * mult, mult_shift)).
    gamma_shift, mult_shift : int
    epsilon : int
        Added to n**2 times the variance.
    residue : bool [H]
        Features whose saturated-away part is written too, for the next GEMM's duplicates; none if wide.
    wide : bool
        The operand is w itself in two byte planes, instead of sat8(w).
    """

    gamma: np.ndarray
    beta: np.ndarray
    mult: np.ndarray
    gamma_shift: int
    mult_shift: int
    epsilon: int
    residue: np.ndarray
    wide: bool = False


@dataclass(frozen=True, eq=False, kw_only=True)
class QuantizedLayer:
    """One encoder layer in integers.

    Attributes
    ----------
    hidden, heads, head_dim, ffn : int
        heads * head_dim, the attention width, may be another than hidden (pruned heads, padded odd ones);
        head_dim is even. Without heads, or without neurons, the LayerNorm behind them is that of the bare residual.
    ffn_copies : int
        So many of the `ffn` neurons, the last ones, are copies of others: none of the model's own work.
    input_quantize : QuantizedNorm
        int16 layer input to the operand of `query`, `key` and `value`.
    query, key : QuantizedLinear
    value : QuantizedLinear
        Computed with swapped operands, so that `mult` and `shift` are row factors (one a dimension). Its
        bias is zero: the projection's own is folded into `output`.
    value_wide : bool
        V is kept as int16 in two byte planes, of which P·V is combined as of a wide operand: context in units of
        V's LSB then needs a gain of 4 (`bertha.golden.units.COMBINED_SHIFT`).
    score_mult, score_shift : uint16, uint8 [heads]
        Q·K accumulator to int16 scores in 1/64 of log2, 1/sqrt(head_dim) and log2(e) included.
    attention_keys : int
        Hard attention: of the keys that a row sees so many keep their probability, those with the highest scores, of
        equal ones those that come first. 0: all keys.
    attention_renormalised : bool
        With hard attention, whether the kept probabilities add up to 1, or to what they have among all keys.
    context_gain : uint8 [heads]
        Subtracted from the softmax row factor's shift: context is 2**gain times finer than V.
    context_residue : bool [heads * head_dim]
    context_wide : bool
        The operand of `output` is wide.
    output : QuantizedLinear
        On context; its int16 result is added to the int16 layer input (same scale).
    attention_norm : QuantizedNorm
        Its second result is the operand of `intermediate`.
    intermediate : QuantizedLinear
        Its int16 result is the pre-activation; `post_shift` applies after the piecewise table.
    gelu_base, gelu_slope : int16 [256]
    hidden_residue : bool [ffn]
    hidden_wide : bool
        The operand of `down` is wide.
    down : QuantizedLinear
        On the activated hidden values; its int16 result is added to the int16 output of attention_norm.
    output_norm : QuantizedNorm
        Its second result is the next layer's operand.
    input_scale, middle_scale, output_scale : float
        Value of one LSB of the int16 layer input (and attention sum), of the int16 output of
        attention_norm (and the FFN sum), and of the int16 layer output.
    """

    hidden: int
    heads: int
    head_dim: int
    ffn: int
    input_quantize: QuantizedNorm
    query: QuantizedLinear
    key: QuantizedLinear
    value: QuantizedLinear
    score_mult: np.ndarray
    score_shift: np.ndarray
    context_gain: np.ndarray
    context_residue: np.ndarray
    output: QuantizedLinear
    attention_norm: QuantizedNorm
    intermediate: QuantizedLinear
    gelu_base: np.ndarray
    gelu_slope: np.ndarray
    hidden_residue: np.ndarray
    down: QuantizedLinear
    output_norm: QuantizedNorm
    input_scale: float
    middle_scale: float
    output_scale: float
    ffn_copies: int = 0
    value_wide: bool = False
    context_wide: bool = False
    hidden_wide: bool = False
    attention_keys: int = 0
    attention_renormalised: bool = True

    @property
    def width(self) -> int:
        """Features of Q, K, V and context."""
        return self.heads * self.head_dim

    def wide_operand(self, name) -> bool:
        """Whether the linear layer called `name` (of `LINEARS`) has a wide operand."""
        if name == "output":
            return self.context_wide
        if name == "down":
            return self.hidden_wide
        return (self.attention_norm if name == "intermediate" else self.input_quantize).wide


def save_layer(path, layer) -> None:
    """Write a layer to an .npz file, whole or not at all, whoever else writes it at the same time.

    Raises
    ------
    OSError
        If it can't be written.
    """
    write_arrays(path, flatten("", layer))


def load_layer(path) -> QuantizedLayer:
    """The layer that `save_layer` wrote.

    Raises
    ------
    OSError
        If the file can't be read.
    ValueError
        If it isn't a layer's: damaged, or with arrays of another type, shape or range.
    """
    layer = read_arrays(path, lambda arrays: restore("", QuantizedLayer, arrays))
    check_layer(layer)
    return layer


def write_arrays(path, arrays) -> None:
    """Write pairs of name and array to an .npz file, whole or not at all (OSError)."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}.partial")
    try:
        with open(partial, "xb") as file:
            np.savez(file, **dict(arrays))
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def read_arrays(path, build) -> object:
    """What `build` makes of the arrays of an .npz file; ValueError if the file is damaged."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return build(arrays)
    except (OSError, ValueError):
        raise
    except Exception as error:  # zipfile, zlib and NumPy have many ways to find a file damaged
        raise ValueError(f"{path} must hold quantised weights, but is damaged: {error!r}") from None


def check_layer(layer) -> None:
    """ValueError unless all arrays have the types, shapes and ranges that the classes above state."""
    hidden, ffn, heads, width = layer.hidden, layer.ffn, layer.heads, layer.width
    if min(hidden, layer.head_dim) < 1 or layer.head_dim % 2 or min(ffn, heads) < 0:
        raise ValueError(
            f"hidden and head_dim must be positive, head_dim even, and ffn and heads not negative, not {hidden}, "
            f"{layer.head_dim}, {ffn} and {heads}"
        )
    if not 0 <= layer.ffn_copies <= max(0, ffn - 1):
        raise ValueError(f"ffn_copies must be from 0 to {max(0, ffn - 1)}, not {layer.ffn_copies}")
    if layer.attention_keys < 0:
        raise ValueError(f"attention_keys must be at least 0, not {layer.attention_keys}")
    for name in ("input_scale", "middle_scale", "output_scale"):
        scale = getattr(layer, name)
        if not (np.isfinite(scale) and scale > 0):
            raise ValueError(f"{name} must be positive and finite, not {scale}")
    for name, kind, size in (
        ("score_mult", np.uint16, heads),
        ("score_shift", np.uint8, heads),
        ("context_gain", np.uint8, heads),
        ("context_residue", np.bool_, width),
        ("gelu_base", np.int16, 256),
        ("gelu_slope", np.int16, 256),
        ("hidden_residue", np.bool_, ffn),
    ):
        _check_array(name, getattr(layer, name), kind, (size,))
    _check_largest("score_shift", layer.score_shift, 63)
    _check_largest("context_gain", layer.context_gain, 15)
    for name in ("input_quantize", "attention_norm", "output_norm"):
        check_norm(name, getattr(layer, name), hidden)
    first, second = layer.input_quantize.residue, layer.attention_norm.residue
    for name, outputs, flags in (
        ("query", width, first),
        ("key", width, first),
        ("value", width, first),
        ("output", hidden, layer.context_residue),
        ("intermediate", ffn, second),
        ("down", hidden, layer.hidden_residue),
    ):
        _check_linear(name, getattr(layer, name), outputs, flags)
        if not len(flags) and getattr(layer, name).bias.any():
            raise ValueError(f"{name}'s bias must be zero where it has no input features, but isn't")
        if layer.wide_operand(name) and flags.any():
            raise ValueError(f"{name} must have no duplicates with its wide operand, not {flags.sum()}")


def check_norm(name, norm, size) -> None:
    """ValueError unless the norm called `name` fits `size` features."""
    for part, kind in (("gamma", np.int16), ("beta", np.int16), ("mult", np.uint16), ("residue", np.bool_)):
        _check_array(f"{name}.{part}", getattr(norm, part), kind, (size,))
    for part, largest in (("gamma_shift", 63), ("mult_shift", 63), ("epsilon", 2**32 - 1)):
        _check_largest(f"{name}.{part}", getattr(norm, part), largest)


def _check_linear(name, linear, outputs, flags):
    duplicates = np.flatnonzero(flags)
    _check_array(f"{name}.weight", linear.weight, np.int8, (outputs, len(flags) + len(duplicates)))
    for part, kind in (
        ("bias", np.int32),
        ("mult", np.uint16),
        ("shift", np.uint8),
        ("post_shift", np.uint8),
    ):
        _check_array(f"{name}.{part}", getattr(linear, part), kind, (outputs,))
    _check_largest(f"{name}.shift", linear.shift, 63)
    _check_largest(f"{name}.post_shift", linear.post_shift, 15)
    if not np.array_equal(linear.duplicates, duplicates):
        raise ValueError(f"{name}.duplicates must be the flagged features, not {linear.duplicates}")
    if not np.array_equal(linear.weight[:, len(flags) :], linear.weight[:, duplicates]):
        raise ValueError(f"{name}.weight must end with copies of its duplicated columns, but doesn't")


def _check_array(name, array, kind, shape):
    if array.dtype != kind or array.shape != shape:
        raise ValueError(
            f"{name} must be {np.dtype(kind)} {list(shape)}, not {array.dtype} {list(array.shape)}"
        )


def _check_largest(name, value, largest):
    if np.size(value) and (np.min(value) < 0 or np.max(value) > largest):
        raise ValueError(f"{name} must be from 0 to {largest}, not {np.min(value)} to {np.max(value)}")


def flatten(prefix, item) -> Iterator[tuple[str, np.ndarray]]:
    """Names (dotted, after `prefix`) and arrays of a dataclass's fields."""
    for field in fields(item):
        value = getattr(item, field.name)
        if is_dataclass(value):
            yield from flatten(f"{prefix}{field.name}.", value)
        else:
            yield prefix + field.name, np.asarray(value)


def restore(prefix, kind, arrays) -> object:
    """The dataclass `kind` of what `flatten` named."""
    values = {}
    for field in fields(kind):
        name = prefix + field.name
        if is_dataclass(field.type):
            values[field.name] = restore(name + ".", field.type, arrays)
        elif name not in arrays and field.default is not MISSING:
            values[field.name] = field.default  # a file from before the field existed
        elif field.type in (int, float, bool):
            values[field.name] = field.type(arrays[name])
        else:
            values[field.name] = arrays[name]
    return kind(**values)
