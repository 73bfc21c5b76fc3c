"""Encoder layers and whole models in integers: the second tier of truth, which the RTL has to equal.

It follows `docs/architecture.md` operation by operation. `run_layer` and `run_model` return every intermediate in
matrix form, so that a mismatch can be placed; `run_sentences` is the fast way to many results.
"""

import numpy as np

from bertha.golden.layer import LINEARS
from bertha.golden.units import (
    COMBINED_SHIFT,
    LOWEST_SCORE,
    MASKED_SCORE,
    combine_wide,
    layernorm,
    piecewise,
    quantise,
    requantise,
    residue,
    round_half_up,
    saturate,
    softmax,
    split_wide,
)

__all__ = [
    "accumulator_bounds",
    "add_linear",
    "attend_sentences",
    "dequantise",
    "norm",
    "quantise_input",
    "quantise_operand",
    "run_attention",
    "run_hidden",
    "run_layer",
    "run_model",
    "run_sentences",
]

EXACT_TERMS = 512
ROWS = 256
"""Rows that go through a linear layer or a table together: their int64 values stay in the cache."""

SCORES = 1 << 20
"""Scores of all heads that are computed together, unless one sentence has more."""


def run_layer(layer, x16, ranges=None, key_mask=None) -> dict[str, np.ndarray]:
    """Run a layer on int16 input.

    Parameters
    ----------
    layer : QuantizedLayer
    x16 : int16 [S, hidden], LSB `layer.input_scale`
    ranges : int [S, 2], optional
        Row r sees the keys first <= k < last only. By default all see all.
    key_mask : bool [S], optional
        As Hugging Face's attention mask: true for a real token, false for padding, which no row sees. Where
        a row sees no key, its context is zero.

    Returns
    -------
    dict
        In the order of computation: `x8` int8 [S, hidden + d]; `query`, `key`, `value` int8 [S, width], a wide V's
        [S, 2 * width];
        `scores` int16 [heads, S, S]; `probabilities` uint8 [heads, S, S]; `softmax_mult` uint16 and
        `softmax_shift` uint8 [heads, S]; `context` int8 [S, width + d]; `attention_sum` int16 [S, hidden];
        `attention_out16` int16, `attention_out8` int8 [S, hidden + d]; `hidden` int8 [S, ffn + d];
        `ffn_sum` int16 [S, hidden]; `output16` int16, `output8` int8 [S, hidden + d]. Where d isn't 0, the
        last d features are the residues of the flagged features, ascending; or, if the operand is wide, the
        low planes of all features behind their high planes.

    Raises
    ------
    ValueError
        If the input, the ranges or the mask have the wrong shape, or the ranges aren't ranges.
    """
    x16 = _checked_input("x16", x16, layer.hidden)
    visible = _visible(ranges, key_mask, len(x16))

    x8 = quantise_operand(x16, layer.input_quantize)
    attended = _attention(layer, x8, visible)
    attention_sum = add_linear(attended["context"], layer.output, x16, layer.context_wide)
    attention_out16, attention_out8 = norm(attention_sum, layer.attention_norm)

    hidden = run_hidden(layer, attention_out8)
    ffn_sum = add_linear(hidden, layer.down, attention_out16, layer.hidden_wide)
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


def run_model(model, embedded16, ranges=None, key_mask=None) -> dict[str, object]:
    """Run a model on int16 embedding sums.

    Parameters
    ----------
    model : QuantizedModel
    embedded16 : int16 [S, hidden], LSB `model.embedding_scale`
    ranges, key_mask : optional, as in `run_layer`

    Returns
    -------
    dict
        `embedding16` int16 [S, hidden]: layer 0's input; `layers`: `run_layer`'s results of each layer;
        `output16` int16 [S, hidden], the last layer's.

    Raises
    ------
    ValueError
        As `run_layer`.
    """
    embedded16 = _checked_input("embedded16", embedded16, model.hidden)
    stream = embedding16 = _embedding(model, embedded16).astype(np.int16)
    layers = []
    for layer in model.layers:
        layers.append(run_layer(layer, stream, ranges, key_mask))
        stream = layers[-1]["output16"]
    return {"embedding16": embedding16, "layers": layers, "output16": stream}


def run_sentences(model, sentences, saturations=None) -> list[np.ndarray]:
    """Outputs of many sentences, each as `run_model` gives it alone.

    Linear layers take all tokens at once, attention takes sentences of equal length together.

    Parameters
    ----------
    model : QuantizedModel
    sentences : list of int16 [s, hidden], LSB `model.embedding_scale`
    saturations : dict, optional
        Gets the count of saturated values by stream, added to what it has: `embedding16`, and for layer l
        `layer l: x8` and so on, by the names of `run_layer`'s results.

    Returns
    -------
    list of int16 [s, hidden], LSB `model.output_scale`
    """
    if not sentences:
        return []
    order = sorted(range(len(sentences)), key=lambda index: len(sentences[index]))
    lengths = [len(sentences[index]) for index in order]
    stream = np.concatenate(
        [_checked_input("sentences", sentences[index], model.hidden) for index in order]
    ).astype(np.int16)
    stream = _embedding(model, stream, _tallies(saturations, "")("embedding16")).astype(np.int16)
    for index, layer in enumerate(model.layers):
        stream = _run_layer_fast(layer, stream, lengths, _tallies(saturations, f"layer {index}: "))
    results = [None] * len(sentences)
    for index, part in zip(order, np.split(stream, np.cumsum(lengths)[:-1]), strict=True):
        results[index] = part
    return results


def run_attention(layer, x8, ranges=None, key_mask=None) -> dict[str, np.ndarray]:
    """From the operand of the projections to that of `output`, as int64 arrays (see `run_layer`)."""
    return _attention(layer, x8, _visible(ranges, key_mask, len(x8)))


def attend_sentences(layer, x8, lengths, tally=None) -> np.ndarray:
    """The operand of `output` (int64) of sentences that lie one after another, each seeing itself only."""
    query, key, value = _projections(layer, x8)
    context = np.empty(query.shape, np.int16)
    position = index = 0
    while index < len(lengths):
        length = lengths[index]
        count = 1
        most = max(1, SCORES // (max(1, layer.heads) * length * length))
        while count < most and index + count < len(lengths) and lengths[index + count] == length:
            count += 1
        rows = slice(position, position + count * length)
        by_sentence = (part[rows].reshape(count, length, -1) for part in (query, key, value))
        context[rows] = _attend(layer, *by_sentence, None)["context"].reshape(count * length, -1)
        position, index = position + count * length, index + count
    return _operand(context, layer.context_residue, layer.context_wide, tally)


def run_hidden(layer, attention_out8, tally=None) -> np.ndarray:
    """The operand of `down` (int64) of the FFN's operand: activated hidden values.

    `tally` is called with the number of saturated values, as in the functions below.
    """

    def activate(rows):
        pre_activation = _linear(rows, layer.intermediate, layer.attention_norm.wide)
        activated = piecewise(pre_activation, layer.gelu_base, layer.gelu_slope)
        kept = round_half_up(activated, layer.intermediate.post_shift)
        return _operand(kept, layer.hidden_residue, layer.hidden_wide, tally)

    return _rowwise(activate, attention_out8)


def quantise_operand(values, norm, tally=None) -> np.ndarray:
    """The operand of int16 values (a QUANTIZE pass), as int64: int8 and residues, or two planes."""
    return _operand(quantise(values, norm.mult, norm.mult_shift), norm.residue, norm.wide, tally)


def norm(values, norm) -> tuple[np.ndarray, np.ndarray]:
    """LayerNorm of int16 values: the int16 result and the operand (see `quantise_operand`), as int64."""
    y16 = _normed(values, norm)
    return y16, quantise_operand(y16, norm)


def add_linear(x8, linear, residual, wide=False, tally=None) -> np.ndarray:
    """int16 result of a linear layer on its operand plus an int16 residual, saturated, as int64."""
    total = _rowwise(lambda rows: _linear(rows, linear, wide), x8) + residual
    return _saturated(total, 16, tally)


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
    bounds = {}
    for name in LINEARS:
        linear = getattr(layer, name)
        largest = np.abs(linear.weight.astype(np.int64)).sum(axis=1) * 128
        if layer.wide_operand(name):
            largest = (largest << 8 - COMBINED_SHIFT) + round_half_up(largest, COMBINED_SHIFT)
        bounds[name] = int((largest + np.abs(linear.bias.astype(np.int64))).max(initial=0))
    context = tokens * 255 * 128
    if layer.value_wide:
        context = (context << 8 - COMBINED_SHIFT) + round_half_up(context, COMBINED_SHIFT)
    return {**bounds, "scores": layer.head_dim * 128 * 128, "context": int(context)}


def _run_layer_fast(layer, x16, lengths, tally):
    """A layer's int16 output for sentences one after another, the same as `run_layer` gives each."""
    x8 = _rowwise(lambda rows: quantise_operand(rows, layer.input_quantize, tally("x8")), x16)
    context = attend_sentences(layer, x8, lengths, tally("context"))
    attention_sum = add_linear(context, layer.output, x16, layer.context_wide, tally("attention_sum"))
    middle16 = _normed(attention_sum, layer.attention_norm, tally("attention_out16"))
    middle8 = quantise_operand(middle16, layer.attention_norm, tally("attention_out8"))
    hidden = run_hidden(layer, middle8, tally("hidden"))
    ffn_sum = add_linear(hidden, layer.down, middle16, layer.hidden_wide, tally("ffn_sum"))
    return _normed(ffn_sum, layer.output_norm, tally("output16")).astype(np.int16)


def _tallies(saturations, prefix):
    """By a stream's name, what to call with a number of saturated values; None if nobody counts."""

    def by_stream(name):
        if saturations is None:
            return None

        def add(count):
            saturations[prefix + name] = saturations.get(prefix + name, 0) + int(count)

        return add

    return by_stream


def _embedding(model, embedded16, tally=None):
    """Layer 0's int16 input of the host's."""
    if model.embedding_norm is None:
        return embedded16
    return _normed(embedded16, model.embedding_norm, tally)


def _normed(values, norm, tally=None):
    """int16 LayerNorm of int16 values."""
    y16 = _rowwise(
        lambda rows: layernorm(rows, norm.gamma, norm.beta, norm.gamma_shift, norm.epsilon), values
    )
    if tally is not None:
        tally(np.count_nonzero((y16 == 32767) | (y16 == -32768)))
    return y16


def _attention(layer, x8, visible):
    """`run_attention` with the keys that each row sees as bool [S, S]."""
    query, key, value = _projections(layer, x8)
    attended = _attend(layer, query[None], key[None], value[None], visible)
    attended = {name: part[0] for name, part in attended.items()}
    attended["context"] = _operand(attended["context"], layer.context_residue, layer.context_wide)
    return {"query": query, "key": key, "value": value, **attended}


def _projections(layer, x8):
    """int8 Q, K and V [S, width], or a wide V's planes [S, 2 * width], as int64."""
    wide = layer.input_quantize.wide

    def project(linear, kept_wide=False):
        def kept(rows):
            values = round_half_up(_linear(rows, linear, wide), linear.post_shift)
            return np.concatenate(split_wide(values), axis=1) if kept_wide else saturate(values, 8)

        return _rowwise(kept, x8)

    return project(layer.query), project(layer.key), project(layer.value, layer.value_wide)


def _attend(layer, query, key, value, visible):
    """Scores, probabilities, factors and int16 context of Q, K and V [sentences, S, width or its double]."""
    if not layer.heads:
        return _nothing_attended(query)
    shape = query.shape
    planes = [_split(plane, layer.heads) for plane in np.split(value, 1 + layer.value_wide, axis=-1)]
    query, key = (_split(part, layer.heads) for part in (query, key))
    column = (layer.heads, 1, 1)
    scores = requantise(
        _product(query, key.swapaxes(-1, -2)),
        layer.score_mult.reshape(column),
        layer.score_shift.reshape(column),
    )
    scores = np.maximum(scores, LOWEST_SCORE)
    if visible is not None:
        scores = np.where(visible, scores, MASKED_SCORE)
    probabilities, mult, shift = softmax(
        scores, kept=layer.attention_keys, whole_sum=not layer.attention_renormalised
    )
    shift_of_context = np.maximum(shift - layer.context_gain.astype(np.int64)[:, None], 0)
    sums = [_product(probabilities, plane) for plane in planes]
    accumulator = combine_wide(*sums) if layer.value_wide else sums[0]
    context = requantise(accumulator, mult[..., None], shift_of_context[..., None])
    return {
        "scores": scores,
        "probabilities": probabilities,
        "softmax_mult": mult,
        "softmax_shift": shift,
        "context": context.swapaxes(1, 2).reshape(shape),
    }


def _nothing_attended(query):
    """What `_attend` gives without heads."""
    count, tokens, _ = query.shape
    results = {name: np.zeros((count, 0, tokens, tokens), np.int64) for name in ("scores", "probabilities")}
    factors = {name: np.zeros((count, 0, tokens), np.int64) for name in ("softmax_mult", "softmax_shift")}
    return {**results, **factors, "context": np.zeros((count, tokens, 0), np.int64)}


def _checked_input(name, values, hidden):
    values = np.asarray(values, dtype=np.int64)
    if values.ndim != 2 or values.shape[1] != hidden or not len(values):
        raise ValueError(f"{name} must have the shape [tokens, {hidden}], not {list(values.shape)}")
    return values


def _visible(ranges, key_mask, tokens):
    """bool [S, S]: which keys each row sees; None for all."""
    visible = None
    if ranges is not None:
        ranges = np.asarray(ranges)
        if ranges.shape != (tokens, 2):
            raise ValueError(f"ranges must have the shape [{tokens}, 2], not {list(ranges.shape)}")
        first, last = ranges[:, :1].astype(np.int64), ranges[:, 1:].astype(np.int64)
        if first.min() < 0 or last.max() > tokens:
            raise ValueError(f"ranges must be from 0 to {tokens}, not {ranges.min()} to {ranges.max()}")
        keys = np.arange(tokens)
        visible = (keys >= first) & (keys < last)
    if key_mask is not None:
        key_mask = np.asarray(key_mask).astype(bool)
        if key_mask.shape != (tokens,):
            raise ValueError(f"key_mask must have the shape [{tokens}], not {list(key_mask.shape)}")
        seen = np.broadcast_to(key_mask, (tokens, tokens))
        visible = seen if visible is None else visible & seen
    return visible


def _rowwise(function, rows):
    """`function` of the rows, a few at a time."""
    return np.concatenate([function(rows[start : start + ROWS]) for start in range(0, len(rows), ROWS)])


def _product(left, right):
    """Exact integer matrix product of bytes.

    float32 BLAS is exact while sums stay within 2**24: up to 512 products of an unsigned and a signed byte.
    """
    if not left.shape[-1]:
        return np.zeros((*left.shape[:-1], right.shape[-1]), np.int64)
    left, right = left.astype(np.float32), right.astype(np.float32)
    return sum(
        (left[..., start : start + EXACT_TERMS] @ right[..., start : start + EXACT_TERMS, :]).astype(np.int64)
        for start in range(0, left.shape[-1], EXACT_TERMS)
    )


def _linear(x8, linear, wide=False):
    """int16 result of a linear layer on its operand, as int64."""
    if wide:
        high, low = np.split(x8, 2, axis=1)
        accumulator = combine_wide(_product(high, linear.weight.T), _product(low, linear.weight.T))
    else:
        accumulator = _product(x8, linear.weight.T)
    return requantise(accumulator + linear.bias.astype(np.int64), linear.mult, linear.shift)


def _operand(values, flags, wide, tally=None):
    """int16 values as a GEMM's operand: int8 and the residues of flagged features, or two planes."""
    values = np.asarray(values, np.int64)
    if wide:
        if tally is not None:
            tally(np.count_nonzero((values >= 32639) | (values <= -32768)))
        return np.concatenate(split_wide(values), axis=1)
    if tally is not None:
        reach = np.where(flags, 2, 1)
        tally(np.count_nonzero((values > 127 * reach) | (values < -128 * reach)))
    return np.concatenate([saturate(values, 8), residue(values[:, flags])], axis=1)


def _saturated(values, bits, tally):
    result = saturate(values, bits)
    if tally is not None:
        tally(np.count_nonzero(result != values))
    return result


def _split(values, heads):
    """[sentences, S, width] to [sentences, heads, S, head_dim]."""
    return values.reshape(*values.shape[:2], heads, -1).swapaxes(1, 2)
