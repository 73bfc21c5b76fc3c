"""Quantisation of whole models: scales that fit each other, and layers that are each calibrated on float inputs.

A layer isn't calibrated on what the integer layers before it produce: weights would learn to make up for their errors
on the calibration text, which says little of those on another one (docs/numerics.md has the figures).
"""

from dataclasses import replace

import numpy as np

from bertha.golden import floating, integer_model
from bertha.golden.model import QuantizedModel
from bertha.models.embedding import embedding_sums
from bertha.quantize import scaling
from bertha.quantize.quantizer import (
    Settings,
    calibration_sentences,
    quantize_norm,
    quantize_stream,
    stream_scale,
    with_operand,
)
from bertha.quantize.recipes import DEFAULT_RECIPE, plan_operands

__all__ = ["quantize_model"]


def quantize_model(encoder, recipe=DEFAULT_RECIPE, settings=None, *, notify=None) -> QuantizedModel:
    """An encoder in integers, embedding LayerNorm included.

    Parameters
    ----------
    encoder : Encoder
    recipe : str
        One of `bertha.quantize.recipes.RECIPES`.
    settings : Settings, optional
        Calibration; `duplicates` isn't used, a recipe chooses its own.
    notify : callable, optional
        Called with a line of text now and then: what is being done.

    Raises
    ------
    UserError
        If there is no such recipe, or the float model isn't finite on the calibration text.
    TextError
        If a trained model has no tokenizer.
    """
    settings = settings or Settings()
    notify = notify or (lambda line: None)
    sentences = sorted(calibration_sentences(encoder, settings), key=lambda sentence: sentence.tokens)
    notify(f"choosing operands ({recipe})")
    plan = plan_operands(encoder, recipe, sentences)
    importance = np.concatenate([np.full(s.tokens, s.tokens**-settings.emphasis) for s in sentences])
    sums = np.concatenate([embedding_sums(encoder, sentence) for sentence in sentences])
    embedding_scale = scaling.norm_input_scale(encoder.config.layer_norm_eps, sums.shape[1], sums)
    embedding_norm = x16 = input_scale = None
    layers = []
    for index, trace in enumerate(floating.trace_layers(encoder, sentences)):
        notify(f"quantising layer {index} of {encoder.layers}")
        weights = floating.layer_weights(encoder, index)
        if index == 0:
            input_scale = stream_scale(weights, trace)
            embedding_norm, embedding_scale, x16 = _embedding(
                encoder, sums, embedding_scale, trace.inputs, input_scale
            )
        else:
            x16 = integer_model.quantise_input(trace.inputs, input_scale)
        output_scale = _output_scale(encoder, index, trace)
        layer, _ = quantize_stream(
            weights,
            trace,
            x16,
            input_scale,
            plan[index],
            output_scale=output_scale,
            importance=importance,
            activation=encoder.activation,
        )
        if layers:
            layers[-1] = replace(
                layers[-1], output_norm=with_operand(layers[-1].output_norm, layer.input_quantize)
            )
        elif embedding_norm is not None:
            embedding_norm = with_operand(embedding_norm, layer.input_quantize)
        layers.append(layer)
        input_scale = output_scale
    return QuantizedModel(
        embedding_scale=embedding_scale, embedding_norm=embedding_norm, layers=tuple(layers)
    )


def _output_scale(encoder, index, trace):
    """LSB of a layer's output: the next layer's attention sum has the same."""
    if index + 1 == encoder.layers:
        return scaling.wide_scale(trace.outputs)
    # The sum isn't known yet; it is a LayerNorm's output plus attention's, rarely above it.
    width = trace.outputs.shape[1]
    return scaling.norm_input_scale(encoder.config.layer_norm_eps, width, SUM_HEADROOM * trace.outputs)


SUM_HEADROOM = 1.6
"""Largest attention sum of a layer over its largest input."""


def _embedding(encoder, sums, embedding_scale, inputs, input_scale):
    """The embedding LayerNorm, the scale of the host's int16 sums, and layer 0's int16 input."""
    if not encoder.embedding_norm:
        return None, input_scale, integer_model.quantise_input(inputs, input_scale)
    norm = encoder.bert.embeddings.LayerNorm
    hidden = sums.shape[1]
    quantised = quantize_norm(
        norm.weight.detach().numpy().astype(np.float64),
        norm.bias.detach().numpy().astype(np.float64),
        encoder.config.layer_norm_eps,
        scaling.OperandScales(np.full(hidden, 256 * input_scale), np.zeros(hidden, dtype=bool)),
        in_scale=embedding_scale,
        out_scale=input_scale,
    )
    embedded16 = integer_model.quantise_input(sums, embedding_scale)
    return quantised, embedding_scale, integer_model.norm(embedded16, quantised)[0].astype(np.int16)
