"""Post-training quantisation of an encoder layer: float weights and calibration text to integers.

W8A8 with an int16 residual stream and static scales. In order: every int8 operand gets a scale a channel
(`bertha.quantize.scaling`), weights are rounded against the integers that the layer so far really produces
(`bertha.quantize.rounding`), and the integer model runs on the calibration sentences to produce them.
"""

from dataclasses import dataclass, field, fields, replace
from types import SimpleNamespace

import numpy as np
import torch

from bertha.errors import UserError
from bertha.golden import floating, integer_model, units
from bertha.golden.layer import QuantizedLayer, QuantizedLinear, QuantizedNorm
from bertha.models import text
from bertha.models.calibration_text import DIVERSE_TEXTS
from bertha.quantize import rounding, scaling, tables
from bertha.quantize.splitting import neuron_copies, split_neurons

__all__ = [
    "Duplicates",
    "Operands",
    "QuantizedLayer",
    "QuantizedLinear",
    "QuantizedNorm",
    "Settings",
    "calibration_sentences",
    "check_duplicates",
    "evaluation_sentences",
    "layer_copies",
    "operand_scales",
    "quantize_layer",
    "quantize_norm",
    "quantize_pass",
    "quantize_stream",
    "quantize_trace",
    "stream_scale",
    "with_operand",
]

LOWEST_PRE_ACTIVATION = -12.0

LARGEST_GAIN = 12
"""Of a wide context: 2**12 times finer than V is finer than anything in it."""

RANDOM_LENGTH = 128
"""Longest calibration sequence of random tokens."""

SHORTEST, SHORT = 12, 48
"""Reviews of more than `SHORT` tokens are cut to lengths from `SHORTEST` on."""

LOG2_UNITS = 64 / np.log(2)
"""Score units (1/64 of log2) in one natural unit."""


@dataclass(frozen=True, kw_only=True)
class Duplicates:
    """Duplicated input channels of each GEMM (at most all); each costs one more word of K."""

    projections: int = 0
    output: int = 0
    intermediate: int = 0
    down: int = 0

    def __post_init__(self):
        for point in fields(self):
            _check_count(f"duplicates of {point.name}", getattr(self, point.name), least=0)


@dataclass(frozen=True, kw_only=True)
class Operands:
    """What is spent on a layer's operands: duplicated channels, and which are wide.

    `wide` has names of `Duplicates`' fields, which have no duplicates then, and of "value": V in P·V.
    """

    duplicates: Duplicates = field(default_factory=Duplicates)
    wide: frozenset = frozenset()

    def __post_init__(self):
        for name in self.wide:
            if getattr(self.duplicates, name, 0):
                raise UserError(f"a wide operand must have no duplicates, but {name} has some")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a layer is quantised.

    Parameters
    ----------
    duplicates : Duplicates
    calibration : int
        Film reviews, or sequences of random tokens for a model without a tokenizer.
    length : int
        Longest calibration sequence in tokens.
    seed : int
        Which texts.
    texts : tuple of str, optional
        Calibration text instead of reviews.
    emphasis : float
        A token of a sentence of n counts n**-emphasis: short sentences have fewer to average errors over.
    """

    duplicates: Duplicates = field(default_factory=Duplicates)
    calibration: int = 240
    length: int = 512
    seed: int = 0
    texts: tuple[str, ...] | None = None
    emphasis: float = 1.0

    def __post_init__(self):
        _check_count("calibration texts", self.calibration, least=1)
        _check_count("calibration length", self.length, least=1)
        _check_count("seed", self.seed, least=0)


def _check_count(name, value, *, least):
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise UserError(f"{name} must be an integer from {least}, not {value!r}")


def calibration_sentences(encoder, settings=None) -> list[text.Sentence]:
    """Sentences of all lengths that scales are set by.

    Film reviews, whole and single sentences, cut to lengths that are uniform on a logarithmic scale; short texts
    of many kinds (`bertha.models.calibration_text`); or the settings' own texts; or random tokens for random weights.

    Raises
    ------
    TextError
        If a trained model has no tokenizer: scales set by random tokens would be wrong for text.
    """
    settings = settings or Settings()
    if encoder.tokenizer_file is None and not encoder.trained:
        return text.random_sentences(
            encoder, settings.calibration, min(settings.length, RANDOM_LENGTH), settings.seed
        )
    longest = min(settings.length, encoder.config.max_position_embeddings)
    if settings.texts is not None:
        return [text.trim(sentence) for sentence in text.tokenize(encoder, list(settings.texts), longest)]
    reviews = text.tokenize(encoder, text.calibration_texts(settings.calibration, settings.seed), longest)
    if settings.calibration < len(DIVERSE_TEXTS):
        return [text.trim(sentence) for sentence in reviews]
    lengths = np.geomspace(min(SHORTEST, longest), longest, sum(s.tokens > SHORT for s in reviews))
    lengths = iter(np.random.default_rng(settings.seed).permutation(lengths).round().astype(int))
    cut = [text.cut(s, next(lengths)) if s.tokens > SHORT else text.trim(s) for s in reviews]
    diverse = text.tokenize(encoder, list(DIVERSE_TEXTS), longest)
    return cut + [text.trim(sentence) for sentence in diverse]


def evaluation_sentences(encoder, count, *, length=128, seed=0) -> list[text.Sentence]:
    """Sentences that no calibration saw, each of its own length up to `length`."""
    return _sentences(encoder, text.evaluation_texts, count, length, seed + 1_000_000)


def quantize_layer(encoder, index, settings=None, *, input_scale=None) -> QuantizedLayer:
    """Layer `index` of a model in integers, calibrated on `calibration_sentences` and float inputs.

    `input_scale` fixes the LSB of the int16 input, for a layer that follows a quantised one.
    """
    settings = settings or Settings()
    trace = floating.trace_layer(encoder, calibration_sentences(encoder, settings), index)
    following = floating.layer_weights(encoder, index + 1) if index + 1 < encoder.layers else None
    return quantize_trace(
        floating.layer_weights(encoder, index),
        trace,
        settings.duplicates,
        following=following,
        input_scale=input_scale,
        activation=encoder.activation,
    )


def quantize_trace(
    weights, trace, duplicates, *, following=None, input_scale=None, activation=None
) -> QuantizedLayer:
    """A layer in integers.

    Parameters
    ----------
    weights : LayerWeights
    trace : LayerTrace
        What the float layer computed for the calibration sentences.
    duplicates : Duplicates
    following : LayerWeights, optional
        The next layer's, whose operand `output_norm` writes.
    input_scale : float, optional
        LSB of the int16 input; by default from the trace.
    activation : Activation, optional
        The feed-forward network's; by default GELU.
    """
    if input_scale is None:
        input_scale = stream_scale(weights, trace)
    x16 = integer_model.quantise_input(trace.inputs, input_scale)
    layer, _ = quantize_stream(
        weights, trace, x16, input_scale, Operands(duplicates=duplicates), activation=activation
    )
    if following is None:
        operand = scaling.operand_scales(trace.outputs, np.eye(layer.hidden), 0, finest=layer.output_scale)
    else:
        operand = _projection_scales(
            following, trace.outputs, Operands(duplicates=duplicates), layer.output_scale
        )
    return replace(
        layer, output_norm=with_operand(layer.output_norm, quantize_pass(operand, layer.output_scale))
    )


def stream_scale(weights, trace) -> float:
    """LSB of a layer's int16 input, which is also that of its attention sum."""
    return scaling.norm_input_scale(weights.epsilon, len(weights.output), trace.inputs, trace.attention_sum)


def with_operand(norm, operand) -> QuantizedNorm:
    """The norm with another norm's (`QuantizedLayer.input_quantize`) operand."""
    return replace(
        norm, mult=operand.mult, mult_shift=operand.mult_shift, residue=operand.residue, wide=operand.wide
    )


def quantize_stream(
    weights, trace, x16, input_scale, operands, *, output_scale=None, importance=None, activation=None
) -> tuple[QuantizedLayer, np.ndarray]:
    """A layer in integers that makes the best of the int16 input it really gets, and its int16 output.

    Parameters
    ----------
    weights : LayerWeights
    trace : LayerTrace
        What the float layer computed for the calibration sentences: where the integers should come out.
    x16 : int16 [tokens, hidden], LSB `input_scale`
        The layer's input.
    operands : Operands
    output_scale : float, optional
        LSB of the output, by default from the trace.
    importance : float [tokens], optional
        How much each token's error counts.
    activation : Activation, optional
        The feed-forward network's; by default GELU.

    Returns
    -------
    layer : QuantizedLayer
        Its `output_norm` has a plain operand: the next layer's replaces it (`with_operand`).
    output16 : int16 [tokens, hidden]
    """
    _check_finite(trace)
    duplicates, wide = operands.duplicates, operands.wide
    check_duplicates(duplicates, hidden=len(weights.output), ffn=len(weights.intermediate))
    dither, own_ffn = None, len(weights.intermediate)
    if own_ffn and "down" not in wide:
        weights, trace, dither = split_neurons(weights, trace, layer_copies(weights, trace))
    hidden, ffn, heads = len(weights.output), len(weights.intermediate), weights.heads
    rounder = _Rounder(importance)
    x16 = x16.astype(np.int64)
    stream = integer_model.dequantise(x16, input_scale).astype(np.float32)
    if output_scale is None:
        output_scale = scaling.wide_scale(trace.outputs)
    parts = {
        "value_wide": "value" in wide,
        "context_wide": "output" in wide,
        "hidden_wide": "down" in wide,
        "hidden": hidden,
        "heads": heads,
        "head_dim": (weights.head_dim + 1) // 2 * 2,
        "ffn": ffn,
        "ffn_copies": ffn - own_ffn,
        "attention_keys": weights.attention_keys,
        "attention_renormalised": weights.attention_renormalised,
        "input_scale": input_scale,
        "middle_scale": scaling.norm_input_scale(weights.epsilon, hidden, trace.attention_out, trace.ffn_sum),
        "output_scale": output_scale,
    }
    operand = _projection_scales(weights, trace.inputs, operands, input_scale, importance)
    parts["input_quantize"] = quantize_pass(operand, input_scale)
    x8 = integer_model.quantise_operand(x16, parts["input_quantize"])
    project = _projections if heads else _no_projections
    parts |= project(weights, trace, operand, x8, operands, rounder)

    context8 = integer_model.attend_sentences(SimpleNamespace(**parts), x8, trace.lengths)
    parts["output"] = _no_inputs(hidden)
    if heads:
        parts["output"] = rounder.linear(
            _padded_heads(weights.output * weights.value.any(axis=1), heads, axis=1),
            parts["context_scales"],
            context8,
            _wanted(trace.attention_sum, trace.inputs, stream, weights.output),
            np.full(hidden, input_scale),
        )
    attention_sum = integer_model.add_linear(context8, parts["output"], x16, parts["context_wide"])

    operand = _intermediate_scales(weights, trace, operands, parts["middle_scale"], importance)
    parts["attention_norm"] = quantize_norm(
        weights.attention_gamma,
        weights.attention_beta,
        weights.epsilon,
        operand,
        in_scale=input_scale,
        out_scale=parts["middle_scale"],
    )
    middle16, middle8 = integer_model.norm(attention_sum, parts["attention_norm"])
    expand = _intermediate if ffn else _no_intermediate
    parts |= expand(weights, trace, operand, middle8, operands, rounder, activation, dither)
    hidden8 = integer_model.run_hidden(SimpleNamespace(**parts), middle8)
    middle = integer_model.dequantise(middle16, parts["middle_scale"]).astype(np.float32)
    parts["down"] = _no_inputs(hidden)
    if ffn:
        parts["down"] = rounder.linear(
            weights.down * weights.intermediate.any(axis=1),
            parts["hidden_scales"],
            hidden8,
            _wanted(trace.ffn_sum, trace.attention_out, middle, weights.down),
            np.full(hidden, parts["middle_scale"]),
        )
    ffn_sum = integer_model.add_linear(hidden8, parts["down"], middle16, parts["hidden_wide"])
    parts["output_norm"] = quantize_norm(
        weights.output_gamma,
        weights.output_beta,
        weights.epsilon,
        scaling.OperandScales(np.full(hidden, output_scale * 256), np.zeros(hidden, dtype=bool)),
        in_scale=parts["middle_scale"],
        out_scale=output_scale,
    )
    output16, _ = integer_model.norm(ffn_sum, parts["output_norm"])
    del parts["context_scales"], parts["hidden_scales"]
    return QuantizedLayer(**parts), output16.astype(np.int16)


def operand_scales(weights, trace, name, operands) -> tuple[scaling.OperandScales, np.ndarray | float]:
    """Scales of one of a layer's operands (a field's name of `Duplicates`), and the value of its zeros.

    Of the int8 operand as it is chosen here, whatever the scales of int16 streams.
    """
    if name == "projections":
        return _projection_scales(weights, trace.inputs, operands, 0.0), 0.0
    if name == "output":
        kept = _value_scales(weights, trace, operands)
        return scaling.OperandScales(kept.context, kept.residue), weights.value_bias
    if name == "intermediate":
        return _intermediate_scales(weights, trace, operands, 0.0), 0.0
    kept = scaling.hidden_scales(
        trace.activated,
        _felt(weights.down, weights.output_gamma),
        operands.duplicates.down,
        minimum=float(trace.activated.min()),
    )
    return kept.operand, kept.offset


def layer_copies(weights, trace) -> np.ndarray:
    """How often each neuron of a layer is there if `down` has an int8 operand, int [ffn]."""
    return neuron_copies(_felt(weights.down, weights.output_gamma), np.abs(trace.activated).max(axis=0) / 127)


def check_duplicates(duplicates, *, hidden, ffn) -> None:
    """UserError if a layer of this size has fewer channels than are to be duplicated."""
    for point in fields(duplicates):
        count, channels = getattr(duplicates, point.name), ffn if point.name == "down" else hidden
        if count > channels:
            raise UserError(
                f"duplicates of {point.name} must be at most its {channels} channels, not {count}"
            )


def _sentences(encoder, source, count, length, seed):
    if encoder.tokenizer_file is None and not encoder.trained:
        return text.random_sentences(encoder, count, length, seed)
    longest = min(length, encoder.config.max_position_embeddings)
    return [text.trim(sentence) for sentence in text.tokenize(encoder, source(count, seed), longest)]


def _wanted(total, residual, stream, weight):
    """What a linear layer should add to the residual stream there really is; a row of zeros adds its bias."""
    return total - np.where(weight.any(axis=1), stream, residual)


def _check_finite(trace):
    for point in fields(trace):
        if not np.isfinite(getattr(trace, point.name)).all():
            raise UserError(
                f"a layer's float results must be finite for the calibration text, but its {point.name} aren't"
            )


def _projection_scales(weights, inputs, operands, finest, importance=None):
    """Scales of the operand of Q, K and V."""
    together = np.concatenate([weights.query, weights.key, weights.value])
    if not len(together):
        return _unread(inputs)
    return scaling.operand_scales(
        inputs,
        together,
        operands.duplicates.projections,
        finest=finest,
        importance=importance,
        wide="projections" in operands.wide,
    )


def _intermediate_scales(weights, trace, operands, finest, importance=None):
    """Scales of the FFN's operand; a neuron matters as much as the next linear layer makes of it."""
    if not len(weights.intermediate):
        return _unread(trace.attention_out)
    felt = np.sqrt(np.square(_felt(weights.down, weights.output_gamma)).sum(axis=0))
    return scaling.operand_scales(
        trace.attention_out,
        weights.intermediate * felt[:, None],
        operands.duplicates.intermediate,
        finest=finest,
        importance=importance,
        wide="intermediate" in operands.wide,
    )


def _unread(values):
    """Scales of an operand of a block that was pruned whole: nobody reads it."""
    peak = np.maximum(np.abs(values).max(axis=0).astype(np.float64), 1e-15)
    return scaling.OperandScales(peak / 127, np.zeros(len(peak), dtype=bool))


def _no_inputs(outputs):
    """The linear layer behind a block that was pruned whole; it adds nothing."""
    return _empty_linear(outputs, scaling.OperandScales(np.zeros(0), np.zeros(0, dtype=bool)))


def _empty_linear(outputs, operand):
    """A linear layer without outputs, or without inputs."""
    width = len(operand.scale) + int(operand.residue.sum())
    return QuantizedLinear(
        weight=np.zeros((outputs, width), np.int8),
        duplicates=operand.duplicates,
        bias=np.zeros(outputs, np.int32),
        mult=np.zeros(outputs, np.uint16),
        shift=np.zeros(outputs, np.uint8),
        post_shift=np.zeros(outputs, np.uint8),
    )


def _no_projections(weights, trace, operand, *_):
    """`_projections` of a layer without heads."""
    empty, none = _empty_linear(0, operand), np.zeros(0, dtype=bool)
    return {
        "query": empty,
        "key": empty,
        "value": empty,
        "score_mult": np.zeros(0, np.uint16),
        "score_shift": np.zeros(0, np.uint8),
        "context_gain": np.zeros(0, np.uint8),
        "context_residue": none,
        "context_scales": scaling.OperandScales(np.zeros(0), none),
    }


def _no_intermediate(weights, trace, operand, *_):
    """`_intermediate` of a layer without neurons."""
    none = np.zeros(0, dtype=bool)
    return {
        "intermediate": _empty_linear(0, operand),
        "gelu_base": np.zeros(256, np.int16),
        "gelu_slope": np.zeros(256, np.int16),
        "hidden_residue": none,
        "hidden_scales": scaling.OperandScales(np.zeros(0), none),
    }


def _felt(weight, gamma):
    """Weights [out, in] before a LayerNorm, by how much it makes of each output."""
    return weight * gamma[:, None]


def _padded_heads(values, heads, axis=-1):
    """Features of all heads with a zero after each head's, if heads are odd."""
    size = values.shape[axis] // heads
    if size % 2 == 0:
        return values
    axis %= values.ndim
    shape = values.shape
    split = values.reshape(*shape[:axis], heads, size, *shape[axis + 1 :])
    widths = [(0, 1) if place == axis + 1 else (0, 0) for place in range(split.ndim)]
    return np.pad(split, widths).reshape(*shape[:axis], heads * (size + 1), *shape[axis + 1 :])


def _projections(weights, trace, operand, x8, operands, rounder):
    """Q, K and V and everything up to context."""
    heads, head_dim = weights.heads, len(weights.query) // weights.heads
    # A constant added to the keys adds a constant to a row of scores, which softmax takes no notice of.
    keys = trace.key - (trace.key.max(axis=0) + trace.key.min(axis=0)) / 2
    # A constant added to V is added to context, as a row of P sums to one: `output`'s bias makes up for it.
    query_scale, key_scale, pair_scale = _score_scales(trace.query, keys, heads)
    score_mult, score_shift = _fixed_point(pair_scale / np.sqrt(head_dim) * LOG2_UNITS)
    kept = _value_scales(weights, trace, operands)
    padded = [
        (_padded_heads(weight, heads, axis=0), _padded_heads(target, heads), _padded_scales(scale, heads))
        for weight, target, scale in (
            (weights.query, trace.query, query_scale),
            (weights.key, keys, key_scale),
            (weights.value, trace.value, kept.value),
        )
    ]
    query, key, value = (
        rounder.linear(weight, operand, x8, target, scale) for weight, target, scale in padded
    )
    residue = _padded_heads(kept.residue, heads)
    return {
        "query": query,
        "key": key,
        "value": replace(value, bias=np.zeros(len(residue), np.int32)),
        "score_mult": score_mult,
        "score_shift": score_shift,
        "context_gain": kept.gain.astype(np.uint8),
        "context_residue": residue,
        "context_scales": scaling.OperandScales(
            _padded_scales(kept.context, heads), residue, "output" in operands.wide
        ),
    }


def _padded_scales(scale, heads):
    """Scales of padded features; a padding feature's is 1."""
    padded = _padded_heads(scale, heads)
    return np.where(padded > 0, padded, 1.0)


def _score_scales(query, key, heads):
    """int8 scales of Q and K a dimension, whose product is one number a head (the third result)."""
    query_peak, key_peak = (
        _floored(np.abs(part).max(axis=0).reshape(heads, -1)) * scaling.UNSEEN for part in (query, key)
    )
    query_rms, key_rms = (
        _floored(np.sqrt(np.square(part, dtype=np.float64).mean(axis=0)).reshape(heads, -1))
        for part in (query, key)
    )
    finest_query, finest_key = query_peak / 127, key_peak / 127
    pair = (finest_query * finest_key).max(axis=1, keepdims=True)
    # Error of a product: K's rms times Q's step against Q's rms times K's.
    balanced = np.sqrt(pair * query_rms / key_rms)
    query_scale = np.clip(balanced, finest_query, pair / finest_key)
    return query_scale.reshape(-1), (pair / query_scale).reshape(-1), pair.reshape(-1)


def _floored(values):
    """Positive numbers: what is (nearly) zero becomes a millionth of its row's largest, or 1e-15."""
    return np.maximum(values, np.maximum(1e-6 * values.max(axis=1, keepdims=True), 1e-15))


@dataclass(frozen=True)
class _ValueScales:
    """V's and context's scales a dimension, context's gain a head, and which context features are duplicated."""

    value: np.ndarray
    context: np.ndarray
    gain: np.ndarray
    residue: np.ndarray


def _value_scales(weights, trace, operands):
    value = trace.value - weights.value_bias
    living = weights.value.any(axis=1) & (np.abs(value).max(axis=0) > 0)
    context_peak = np.abs(trace.context - weights.value_bias).max(axis=0) * scaling.HEADROOM
    if "value" in operands.wide:
        value_peak = np.abs(value).max(axis=0).astype(np.float64) * scaling.HEADROOM
        return _wide_value_scales(np.where(living, value_peak, 1.0), context_peak, weights, operands)
    value_peak = np.where(living, scaling.worthwhile_peak(value), 1.0)
    return _int8_value_scales(value_peak, context_peak, weights, trace, operands)


def _wide_value_scales(value_peak, context_peak, weights, operands):
    """V as int16; context from it may be int8, and then V is no finer than that needs."""
    heads = weights.heads
    finest = value_peak / scaling.WIDE_REACH
    residue = np.zeros(len(finest), dtype=bool)
    if "output" in operands.wide:
        room = value_peak / np.maximum(context_peak, 1e-12)
        extra = np.floor(np.log2(room.reshape(heads, -1).min(axis=1)))
        gain = np.clip(units.COMBINED_SHIFT + extra, 0, LARGEST_GAIN).astype(np.int64)
        context = finest * 2.0 ** (units.COMBINED_SHIFT - np.repeat(gain, len(finest) // heads))
        return _ValueScales(finest, context, gain, residue)
    cost = np.square(weights.output).sum(axis=0) * context_peak**2
    residue = _with(residue, np.argsort(-cost, kind="stable")[: operands.duplicates.output])
    unit = 2.0**units.COMBINED_SHIFT
    context = np.maximum(context_peak / np.where(residue, scaling.REACH, 127), finest * unit)
    return _ValueScales(context / unit, context, np.zeros(heads, np.int64), residue)


def _int8_value_scales(value_peak, context_peak, weights, trace, operands):
    heads, duplicates = weights.heads, operands.duplicates.output
    importance = np.square(weights.output).sum(axis=0)
    context = trace.context - weights.value_bias
    # Attention averages V's rounding errors over about this many keys.
    keys = trace.value.var(axis=0, dtype=np.float64) / np.maximum(context.var(axis=0), 1e-12)
    residue = np.zeros(len(value_peak), dtype=bool)

    def result(scale, gain):
        return _ValueScales(scale, scale / 2.0 ** np.repeat(gain, len(scale) // heads), gain, residue)

    if "output" in operands.wide:
        finest = np.maximum(context_peak, 1e-12) / scaling.WIDE_REACH
        gain = np.floor(np.log2((value_peak / 127 / finest).reshape(heads, -1).min(axis=1)))
        return result(value_peak / 127, np.clip(gain, 0, LARGEST_GAIN).astype(np.int64))

    def solve(flags):
        reach = np.where(flags, scaling.REACH, 127)
        errors, scales = [], []
        for gain in range(4):
            scale = np.maximum(value_peak / 127, context_peak / reach * 2**gain)
            noise = importance * scale**2 * (1 / np.maximum(keys, 1) + 0.25**gain)
            errors.append(noise.reshape(heads, -1).sum(axis=1))
            scales.append(scale.reshape(heads, -1))
        gain = np.argmin(errors, axis=0)
        scale = np.take_along_axis(np.array(scales), gain[None, :, None], axis=0)[0].reshape(-1)
        return np.min(errors, axis=0).sum(), scale, gain

    _, scale, gain = solve(residue)
    remaining = min(duplicates, len(residue))
    together = 1 + remaining // scaling.STEPS
    while remaining:
        free = np.flatnonzero(~residue)
        trials = [solve(_with(residue, feature))[0] for feature in free]
        count = min(together, remaining)
        residue = _with(residue, free[np.argsort(trials, kind="stable")[:count]])
        remaining -= count
        _, scale, gain = solve(residue)
    return result(scale, gain)


def _with(flags, places):
    flags = flags.copy()
    flags[places] = True
    return flags


def _intermediate(weights, trace, operand, middle8, operands, rounder, activation, dither):
    """The FFN's first linear layer, its activation's table, and how finely each neuron's result is kept."""
    function = _gelu if activation is None else activation
    # GELU of less than that is zero, and so is the table's first segment, which saturated sums fall into.
    scale = scaling.wide_scale(np.maximum(trace.pre_activation, LOWEST_PRE_ACTIVATION))
    dead = ~weights.intermediate.any(axis=1)
    felt = _felt(weights.down, weights.output_gamma)
    if "down" in operands.wide:
        kept = scaling.wide_hidden_scales(
            trace.activated, felt, in_scale=scale, dead=dead, importance=rounder.importance
        )
    else:
        kept = scaling.hidden_scales(
            trace.activated,
            felt,
            operands.duplicates.down,
            in_scale=scale,
            dead=dead,
            minimum=float(function(np.linspace(LOWEST_PRE_ACTIVATION, 0, 2001)).min()),
        )
    moved = 0.0 if dither is None else dither * kept.operand.scale
    base, slope = tables.activation_table(function, scale, kept.fine, kept.offset)
    return {
        "intermediate": rounder.linear(
            weights.intermediate,
            operand,
            middle8,
            trace.pre_activation + moved,
            np.full(len(weights.intermediate), scale),
            kept.post_shift,
        ),
        "gelu_base": base,
        "gelu_slope": slope,
        "hidden_residue": kept.residue,
        "hidden_scales": replace(kept.operand, wide="down" in operands.wide),
    }


def _gelu(values):
    return torch.nn.functional.gelu(torch.from_numpy(np.asarray(values, np.float64))).numpy()


@dataclass(frozen=True)
class _Rounder:
    """Makes linear layers of float ones, for what their operands really hold."""

    importance: np.ndarray | None

    def linear(self, weight, operand, x8, target, out_scale, post_shift=None):
        """A linear layer on the operand `x8` whose int16 result has the scale `out_scale` (one an output)."""
        if operand.wide:
            high, low = np.split(x8, 2, axis=1)
            activations = 256.0 * high + low
        else:
            activations, residues = np.split(x8.astype(np.float64), [len(operand.scale)], axis=1)
            activations[:, operand.residue] += residues
        rounded = rounding.round_weights(
            weight=weight * operand.scale,
            activations=activations,
            target=target,
            out_scale=out_scale,
            importance=self.importance,
        )
        unit = rounded.scale * (1 << 8 - units.COMBINED_SHIFT if operand.wide else 1)
        mult, shift = _fixed_point(unit / out_scale)
        return QuantizedLinear(
            weight=np.concatenate([rounded.weight, rounded.weight[:, operand.duplicates]], axis=1),
            duplicates=operand.duplicates,
            bias=np.round(rounded.bias / unit).astype(np.int32),
            mult=mult,
            shift=shift,
            post_shift=(np.zeros(len(mult)) if post_shift is None else post_shift).astype(np.uint8),
        )


def _fixed_point(factor):
    """`scaling.fixed_point`; a larger factor, of which one unit saturates any result, is as good as 65535."""
    return scaling.fixed_point(np.minimum(factor, 65535))


def quantize_pass(operand, in_scale) -> QuantizedNorm:
    """A QUANTIZE pass of int16 of scale `in_scale` to an operand (`scaling.OperandScales`)."""
    mult, mult_shift = scaling.shared_fixed_point(in_scale / operand.scale)
    zeros = np.zeros(len(mult), np.int16)
    return QuantizedNorm(
        gamma=zeros,
        beta=zeros,
        mult=mult.astype(np.uint16),
        gamma_shift=0,
        mult_shift=mult_shift,
        epsilon=0,
        residue=operand.residue,
        wide=operand.wide,
    )


def quantize_norm(gamma, beta, epsilon, operand, *, in_scale, out_scale) -> QuantizedNorm:
    """LayerNorm from int16 of scale `in_scale` to int16 of `out_scale` and an operand."""
    one = 1 << units.NORMALISED_BITS
    fixed_gamma, gamma_shift = scaling.shared_fixed_point(gamma / out_scale / one, 32767)
    quantize = quantize_pass(operand, out_scale)
    count = len(gamma)
    return replace(
        quantize,
        gamma=fixed_gamma.astype(np.int16),
        beta=integer_model.quantise_input(beta, out_scale),
        gamma_shift=gamma_shift,
        epsilon=int(np.clip(np.round(epsilon * (count / in_scale) ** 2), 0, 2**32 - 1)),
    )
