"""Post-training quantisation of an encoder layer: float weights and calibration text to integers.

W8A8 with an int16 residual stream and static scales. In order: every int8 operand gets a scale a channel
(`bertha.quantize.scaling`), weights are rounded against the integers that the layer so far really produces
(`bertha.quantize.rounding`), and the integer model runs on the calibration sentences to produce them.
"""

from dataclasses import dataclass, field, fields, replace
from types import SimpleNamespace

import numpy as np

from bertha.errors import UserError
from bertha.golden import floating, integer_model, units
from bertha.golden.layer import QuantizedLayer, QuantizedLinear, QuantizedNorm
from bertha.models import text
from bertha.quantize import rounding, scaling

__all__ = [
    "Duplicates",
    "QuantizedLayer",
    "QuantizedLinear",
    "QuantizedNorm",
    "Settings",
    "calibration_sentences",
    "check_duplicates",
    "evaluation_sentences",
    "quantize_layer",
    "quantize_trace",
]

LOWEST_PRE_ACTIVATION = -12.0

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
class Settings:
    """How a layer is quantised.

    Parameters
    ----------
    duplicates : Duplicates
    calibration : int
        Calibration texts, or sequences of random tokens for a model without a tokenizer.
    length : int
        Longest calibration sequence in tokens.
    seed : int
        Which texts.
    """

    duplicates: Duplicates = field(default_factory=Duplicates)
    calibration: int = 240
    length: int = 128
    seed: int = 0

    def __post_init__(self):
        _check_count("calibration texts", self.calibration, least=1)
        _check_count("calibration length", self.length, least=1)
        _check_count("seed", self.seed, least=0)


def _check_count(name, value, *, least):
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise UserError(f"{name} must be an integer from {least}, not {value!r}")


def calibration_sentences(encoder, settings=None) -> list[text.Sentence]:
    """Sentences that scales are set by: film reviews, or random tokens for random weights.

    Raises
    ------
    TextError
        If a trained model has no tokenizer: scales set by random tokens would be wrong for text.
    """
    settings = settings or Settings()
    return _sentences(encoder, text.calibration_texts, settings.calibration, settings.length, settings.seed)


def evaluation_sentences(encoder, count, *, length=128, seed=0) -> list[text.Sentence]:
    """Sentences that no calibration saw, each of its own length up to `length`."""
    return _sentences(encoder, text.evaluation_texts, count, length, seed + 1_000_000)


def quantize_layer(encoder, index, settings=None, *, input_scale=None) -> QuantizedLayer:
    """Layer `index` of a model in integers, calibrated on `calibration_sentences`.

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
    )


def quantize_trace(weights, trace, duplicates, *, following=None, input_scale=None) -> QuantizedLayer:
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
    """
    _check_finite(trace)
    hidden = len(weights.output)
    check_duplicates(duplicates, hidden=hidden, ffn=len(weights.intermediate))
    if input_scale is None:
        input_scale = scaling.norm_input_scale(weights.epsilon, hidden, trace.inputs, trace.attention_sum)
    x16 = integer_model.quantise_input(trace.inputs, input_scale).astype(np.int64)
    parts = {
        "context_wide": False,
        "hidden_wide": False,
        "hidden": hidden,
        "heads": weights.heads,
        "head_dim": hidden // weights.heads,
        "ffn": weights.down.shape[1],
        "input_scale": input_scale,
        "middle_scale": scaling.norm_input_scale(weights.epsilon, hidden, trace.attention_out, trace.ffn_sum),
        "output_scale": scaling.wide_scale(trace.outputs),
    }
    operand = scaling.operand_scales(
        trace.inputs,
        np.concatenate([weights.query, weights.key, weights.value]),
        duplicates.projections,
        finest=input_scale,
    )
    parts["input_quantize"] = _quantize_pass(operand, input_scale)
    x8 = integer_model.quantise_operand(x16, parts["input_quantize"])
    parts |= _projections(weights, trace, operand, x8, duplicates.output)

    attention = SimpleNamespace(**parts)
    context8 = integer_model.attend_sentences(attention, x8, trace.lengths)
    parts["output"] = _wide_linear(
        weights.output * weights.value.any(axis=1),
        parts["context_scales"],
        context8,
        trace.attention_sum - trace.inputs,
        input_scale,
    )
    attention_sum = integer_model.add_linear(context8, parts["output"], x16)

    operand = scaling.operand_scales(
        trace.attention_out, weights.intermediate, duplicates.intermediate, finest=parts["middle_scale"]
    )
    parts["attention_norm"] = _norm(
        weights.attention_gamma,
        weights.attention_beta,
        weights.epsilon,
        operand,
        in_scale=input_scale,
        out_scale=parts["middle_scale"],
    )
    _, middle8 = integer_model.norm(attention_sum, parts["attention_norm"])
    parts |= _intermediate(weights, trace, operand, middle8, duplicates.down)
    hidden8 = integer_model.run_hidden(SimpleNamespace(**parts), middle8)
    parts["down"] = _wide_linear(
        weights.down * weights.intermediate.any(axis=1),
        parts["hidden_scales"],
        hidden8,
        trace.ffn_sum - trace.attention_out,
        parts["middle_scale"],
    )
    consumer = (
        np.eye(parts["hidden"])
        if following is None
        else np.concatenate([following.query, following.key, following.value])
    )
    parts["output_norm"] = _norm(
        weights.output_gamma,
        weights.output_beta,
        weights.epsilon,
        scaling.operand_scales(
            trace.outputs,
            consumer,
            0 if following is None else duplicates.projections,
            finest=parts["output_scale"],
        ),
        in_scale=parts["middle_scale"],
        out_scale=parts["output_scale"],
    )
    del parts["context_scales"], parts["hidden_scales"]
    return QuantizedLayer(**parts)


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


def _check_finite(trace):
    for point in fields(trace):
        if not np.isfinite(getattr(trace, point.name)).all():
            raise UserError(
                f"a layer's float results must be finite for the calibration text, but its {point.name} aren't"
            )


def _projections(weights, trace, operand, x8, context_duplicates):
    """Q, K and V and everything up to context."""
    heads, head_dim = weights.heads, len(weights.query) // weights.heads
    # A constant added to the keys adds a constant to a row of scores, which softmax takes no notice of.
    keys = trace.key - (trace.key.max(axis=0) + trace.key.min(axis=0)) / 2
    # A constant added to V is added to context, as a row of P sums to one: `output`'s bias makes up for it.
    query_scale, key_scale, pair_scale = _score_scales(trace.query, keys, heads)
    score_mult, score_shift = _fixed_point(pair_scale / np.sqrt(head_dim) * LOG2_UNITS)
    value_scale, gain, residue = _value_scales(weights, trace, context_duplicates)
    query, key, value = (
        _linear(_round(weight, operand, x8, target, out_scale), operand, out_scale)
        for weight, target, out_scale in (
            (weights.query, trace.query, query_scale),
            (weights.key, keys, key_scale),
            (weights.value, trace.value, value_scale),
        )
    )
    scale = value_scale / 2.0 ** np.repeat(gain, head_dim)
    return {
        "query": query,
        "key": key,
        "value": replace(value, bias=np.zeros(len(value_scale), np.int32)),
        "score_mult": score_mult,
        "score_shift": score_shift,
        "context_gain": gain.astype(np.uint8),
        "context_residue": residue,
        "context_scales": scaling.OperandScales(scale, residue),
    }


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


def _value_scales(weights, trace, duplicates):
    """V's scale a dimension, context's gain a head, and which context features are duplicated."""
    heads = weights.heads
    value_peak = np.abs(trace.value - weights.value_bias).max(axis=0) * scaling.UNSEEN
    value_peak = np.where(weights.value.any(axis=1) & (value_peak > 0), value_peak, 1.0)
    context = trace.context - weights.value_bias
    context_peak = np.abs(context).max(axis=0) * scaling.HEADROOM
    importance = np.square(weights.output).sum(axis=0)
    # Attention averages V's rounding errors over about this many keys.
    keys = trace.value.var(axis=0, dtype=np.float64) / np.maximum(context.var(axis=0), 1e-12)
    residue = np.zeros(len(value_peak), dtype=bool)

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
    for _ in range(min(duplicates, len(residue))):
        trials = []
        for feature in np.flatnonzero(~residue):
            flags = residue.copy()
            flags[feature] = True
            trials.append((*solve(flags), flags))
        _, scale, gain, residue = min(trials, key=lambda trial: trial[0])
    return scale, gain, residue


def _intermediate(weights, trace, operand, middle8, duplicates):
    """The FFN's first linear layer, GELU's table, and how finely each neuron's result is kept."""
    ffn = weights.down.shape[1]
    # GELU of less than that is zero, and so is the table's first segment, which saturated sums fall into.
    scale = scaling.wide_scale(np.maximum(trace.pre_activation, LOWEST_PRE_ACTIVATION))
    rounded = _round(weights.intermediate, operand, middle8, trace.pre_activation, scale)
    kept = scaling.hidden_scales(
        trace.activated, weights.down, duplicates, in_scale=scale, dead=~weights.intermediate.any(axis=1)
    )
    base, slope = units.gelu_table(scale, kept.fine, kept.offset)
    return {
        "intermediate": _linear(rounded, operand, np.full(ffn, scale), kept.post_shift),
        "gelu_base": base,
        "gelu_slope": slope,
        "hidden_residue": kept.residue,
        "hidden_scales": kept.operand,
    }


def _round(weight, operand, x8, target, out_scale):
    """Rounded weights for the int8 operand `x8`, its residues added to their features."""
    activations = x8[:, : len(operand.scale)].astype(np.float64)
    activations[:, operand.residue] += x8[:, len(operand.scale) :]
    return rounding.round_weights(
        weight=weight * operand.scale, activations=activations, target=target, out_scale=out_scale
    )


def _linear(rounded, operand, out_scale, post_shift=None):
    """A linear layer whose int16 result has the scale `out_scale` (one an output)."""
    mult, shift = _fixed_point(rounded.scale / out_scale)
    return QuantizedLinear(
        weight=np.concatenate([rounded.weight, rounded.weight[:, operand.duplicates]], axis=1),
        duplicates=operand.duplicates,
        bias=np.round(rounded.bias / rounded.scale).astype(np.int32),
        mult=mult,
        shift=shift,
        post_shift=(np.zeros(len(mult)) if post_shift is None else post_shift).astype(np.uint8),
    )


def _wide_linear(weight, operand, x8, target, out_scale):
    """A linear layer into an int16 stream of scale `out_scale`."""
    rounded = _round(weight, operand, x8, target, out_scale)
    return _linear(rounded, operand, np.full(len(weight), out_scale))


def _fixed_point(factor):
    """`scaling.fixed_point`; a larger factor, of which one unit saturates any result, is as good as 65535."""
    return scaling.fixed_point(np.minimum(factor, 65535))


def _quantize_pass(operand, in_scale):
    """int16 of scale `in_scale` to an int8 operand."""
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
    )


def _norm(gamma, beta, epsilon, operand, *, in_scale, out_scale):
    """LayerNorm from int16 of scale `in_scale` to int16 of `out_scale` and an int8 operand."""
    one = 1 << units.NORMALISED_BITS
    fixed_gamma, gamma_shift = scaling.shared_fixed_point(gamma / out_scale / one, 32767)
    quantize = _quantize_pass(operand, out_scale)
    count = len(gamma)
    return replace(
        quantize,
        gamma=fixed_gamma.astype(np.int16),
        beta=integer_model.quantise_input(beta, out_scale),
        gamma_shift=gamma_shift,
        epsilon=int(np.clip(np.round(epsilon * (count / in_scale) ** 2), 0, 2**32 - 1)),
    )
