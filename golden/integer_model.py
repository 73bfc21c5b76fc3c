"""A whole encoder layer in integers: the second tier of truth, which the RTL has to equal.

It follows `docs/architecture.md` operation by operation and returns every intermediate in matrix form,
so that a mismatch can be placed.
"""

import numpy as np

from bertha.golden.units import (
    LOWEST_SCORE,
    MASKED_SCORE,
    layernorm,
    piecewise,
    quantise,
    requantise,
    residue,
    round_half_up,
    saturate,
    softmax,
)

__all__ = [
    "accumulator_bounds",
    "add_linear",
    "dequantise",
    "norm",
    "quantise_input",
    "quantise_operand",
    "run_attention",
    "run_hidden",
    "run_layer",
]

EXACT_TERMS = 512


def run_layer(layer, x16, mask=None) -> dict[str, np.ndarray]:
    """Run a layer on int16 input.

    Parameters
    ----------
    layer : QuantizedLayer
    x16 : int16 [S, hidden], LSB `layer.input_scale`
    mask : bool [S], optional
        As Hugging Face's attention mask: true for a real token, false for padding. Where no token is
        real, the context is zero.

    Returns
    -------
    dict
        In the order of computation: `x8` int8 [S, hidden + d]; `query`, `key`, `value` int8 [S, hidden];
        `scores` int16 [heads, S, S]; `probabilities` uint8 [heads, S, S]; `softmax_mult` uint16 and
        `softmax_shift` uint8 [heads, S]; `context` int8 [S, hidden + d]; `attention_sum` int16 [S, hidden];
        `attention_out16` int16, `attention_out8` int8 [S, hidden + d]; `hidden` int8 [S, ffn + d];
        `ffn_sum` int16 [S, hidden]; `output16` int16, `output8` int8 [S, hidden + d]. Where d isn't 0, the
        last d features are the residues of the flagged features, ascending.

    Raises
    ------
    ValueError
        If the input or the mask has the wrong shape.
    """
    x16 = np.asarray(x16, dtype=np.int64)
    if x16.ndim != 2 or x16.shape[1] != layer.hidden or not len(x16):
        raise ValueError(f"x16 must have the shape [tokens, {layer.hidden}], not {list(x16.shape)}")
    mask = _checked_mask(mask, len(x16))

    x8 = quantise_operand(x16, layer.input_quantize)
    attended = run_attention(layer, x8, mask)
    attention_sum = add_linear(attended["context"], layer.output, x16)
    attention_out16, attention_out8 = norm(attention_sum, layer.attention_norm)

    hidden = run_hidden(layer, attention_out8)
    ffn_sum = add_linear(hidden, layer.down, attention_out16)
    output16, output8 = norm(ffn_sum, layer.output_norm)

    kinds = {"probabilities": np.uint8, "softmax_mult": np.uint16, "softmax_shift": np.uint8}
    wide16 = ("scores", "attention_sum", "attention_out16", "ffn_sum", "output16")
    results = {
        "x8": x8,
        **attended,
        "attention_sum": attention_sum,
        "attention_out16": attention_out16,
        "attention_out8": attention_out8,
        "hidden": hidden,
        "ffn_sum": ffn_sum,
        "output16": output16,
        "output8": output8,
    }
    return {
        name: value.astype(kinds.get(name, np.int16 if name in wide16 else np.int8))
        for name, value in results.items()
    }


def run_attention(layer, x8, mask=None) -> dict[str, np.ndarray]:
    """From the int8 operand of the projections to int8 context, as int64 arrays (see `run_layer`)."""
    mask = _checked_mask(mask, len(x8))
    query = _narrow(_linear(x8, layer.query), layer.query)
    key = _narrow(_linear(x8, layer.key), layer.key)
    value = _narrow(_linear(x8, layer.value), layer.value)
    by_head = [_split(part, layer.heads) for part in (query, key, value)]

    column = (layer.heads, 1, 1)
    scores = requantise(
        _product(by_head[0], by_head[1].swapaxes(1, 2)),
        layer.score_mult.reshape(column),
        layer.score_shift.reshape(column),
    )
    scores = np.maximum(scores, LOWEST_SCORE)
    scores[:, :, ~mask] = MASKED_SCORE
    probabilities, mult, shift = softmax(scores)
    shift_of_context = np.maximum(shift - layer.context_gain.astype(np.int64)[:, None], 0)
    context = requantise(_product(probabilities, by_head[2]), mult[:, :, None], shift_of_context[:, :, None])
    return {
        "query": query,
        "key": key,
        "value": value,
        "scores": scores,
        "probabilities": probabilities,
        "softmax_mult": mult,
        "softmax_shift": shift,
        "context": _with_residue(
            context.swapaxes(0, 1).reshape(len(x8), layer.hidden), layer.context_residue
        ),
    }


def run_hidden(layer, attention_out8) -> np.ndarray:
    """The activated hidden values (int8 with residues, as int64) of the FFN's int8 operand."""
    activated = piecewise(_linear(attention_out8, layer.intermediate), layer.gelu_base, layer.gelu_slope)
    return _with_residue(round_half_up(activated, layer.intermediate.post_shift), layer.hidden_residue)


def quantise_operand(values, norm) -> np.ndarray:
    """The int8 operand of int16 values and its residues (a QUANTIZE pass), as int64."""
    return _with_residue(quantise(values, norm.mult, norm.mult_shift), norm.residue)


def norm(values, norm) -> tuple[np.ndarray, np.ndarray]:
    """LayerNorm of int16 values: the int16 result and the int8 operand with residues, as int64."""
    y16 = layernorm(values, norm.gamma, norm.beta, norm.gamma_shift, norm.epsilon)
    return y16, quantise_operand(y16, norm)


def add_linear(x8, linear, residual) -> np.ndarray:
    """int16 result of a linear layer plus an int16 residual, saturated, as int64."""
    return saturate(_linear(x8, linear) + residual, 16)


def quantise_input(values, scale) -> np.ndarray:
    """Float values as int16 of LSB `scale`, rounded to nearest and saturated."""
    return np.clip(np.round(np.asarray(values, np.float64) / scale), -32768, 32767).astype(np.int16)


def dequantise(values, scale) -> np.ndarray:
    """Integers of LSB `scale` as float64."""
    return np.asarray(values, np.float64) * scale


def accumulator_bounds(layer, tokens) -> dict[str, int]:
    """Largest |accumulator + bias| that each GEMM could reach with these weights, by name.

    Activations are taken to be anything that their type holds, so no input can exceed the bound. The
    hardware needs it below 2**31.
    """
    linears = {
        "query": layer.query,
        "key": layer.key,
        "value": layer.value,
        "output": layer.output,
        "intermediate": layer.intermediate,
        "down": layer.down,
    }
    bounds = {
        name: int(
            (np.abs(linear.weight.astype(np.int64)).sum(1) * 128 + np.abs(linear.bias.astype(np.int64))).max()
        )
        for name, linear in linears.items()
    }
    return {**bounds, "scores": layer.head_dim * 128 * 128, "context": tokens * 255 * 128}


def _checked_mask(mask, tokens):
    if mask is None:
        return np.ones(tokens, dtype=bool)
    mask = np.asarray(mask).astype(bool)
    if mask.shape != (tokens,):
        raise ValueError(f"mask must have the shape [{tokens}], not {list(mask.shape)}")
    return mask


def _product(left, right):
    """Exact integer matrix product of bytes.

    float32 BLAS is exact while sums stay within 2**24: up to 512 products of an unsigned and a signed byte.
    """
    left, right = left.astype(np.float32), right.astype(np.float32)
    return sum(
        (left[..., start : start + EXACT_TERMS] @ right[..., start : start + EXACT_TERMS, :]).astype(np.int64)
        for start in range(0, left.shape[-1], EXACT_TERMS)
    )


def _linear(x8, linear):
    """int16 result of a linear layer, as int64."""
    accumulator = _product(x8, linear.weight.T) + linear.bias.astype(np.int64)
    return requantise(accumulator, linear.mult, linear.shift)


def _narrow(values, linear):
    return saturate(round_half_up(values, linear.post_shift), 8)


def _with_residue(wide, flags):
    return np.concatenate([saturate(wide, 8), residue(wide[:, flags])], axis=1)


def _split(values, heads):
    """[S, hidden] to [heads, S, head_dim]."""
    return values.reshape(len(values), heads, -1).swapaxes(0, 1)
