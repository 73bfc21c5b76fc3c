"""Pruned and otherwise odd checkpoints: legal models, so they are quantised, bounded and compiled.

What is dead (a zero row, head, neuron, matrix or LayerNorm channel) must be exactly zero in the integers, and
the rest as near to float as without it.
"""

import numpy as np
import pytest
import torch

from bertha.compiler.compile import compile_layer
from bertha.errors import UserError
from bertha.golden import floating, integer_model, metrics
from bertha.models.encoder import synthetic_bert
from bertha.quantize.quantizer import Settings, evaluation_sentences, quantize_layer
from bertha.rtl.config import preset

SETTINGS = Settings(calibration=40, length=32)
HIDDEN, HEADS, FFN = 32, 2, 64
WIDTHS = {
    "attention.self.query": (HIDDEN, HIDDEN),
    "attention.self.key": (HIDDEN, HIDDEN),
    "attention.self.value": (HIDDEN, HIDDEN),
    "attention.output.dense": (HIDDEN, HIDDEN),
    "intermediate.dense": (FFN, HIDDEN),
    "output.dense": (HIDDEN, FFN),
}
NORMS = ("attention.output.LayerNorm", "output.LayerNorm")


def checkpoint(seed=0):
    """A small random model with two layers, for a test to prune."""
    return synthetic_bert(hidden=HIDDEN, heads=HEADS, ffn=FFN, layers=2, seed=seed, name="pruned")


def part(encoder, name, index=0):
    if name == "embeddings.LayerNorm":
        return encoder.bert.embeddings.LayerNorm
    return encoder.bert.encoder.layer[index].get_submodule(name)


def fill(encoder, name, where=slice(None), *, weight=0.0, bias=0.0, index=0):
    """Set rows (or LayerNorm channels) of a part; None leaves weight or bias alone."""
    with torch.no_grad():
        for parameter, value in (("weight", weight), ("bias", bias)):
            if value is not None:
                getattr(part(encoder, name, index), parameter)[where] = value


def quantised(encoder, index=0):
    """The layer, checked: numbers inside their fields, accumulators in bound, and a program for it."""
    layer = quantize_layer(encoder, index, SETTINGS)
    for linear in (layer.query, layer.key, layer.value, layer.output, layer.intermediate, layer.down):
        assert linear.weight.dtype == np.int8 and linear.bias.dtype == np.int32
        assert linear.shift.max(initial=0) <= 63 and linear.post_shift.max(initial=0) <= 15
    for norm in (layer.input_quantize, layer.attention_norm, layer.output_norm):
        assert 0 <= norm.gamma_shift <= 63 and 0 <= norm.mult_shift <= 63 and 0 <= norm.epsilon < 2**32
        assert (norm.gamma.dtype, norm.beta.dtype, norm.mult.dtype) == (np.int16, np.int16, np.uint16)
    for scale in (layer.input_scale, layer.middle_scale, layer.output_scale):
        assert np.isfinite(scale) and scale > 0
    assert max(integer_model.accumulator_bounds(layer, 128).values()) < 2**31
    compile_layer(layer, preset("tiny4"), seq=6)
    return layer


def run(encoder, layer, index=0):
    """Integer results and float (output, mask) of unseen sentences."""
    results, references = [], []
    for sentence in evaluation_sentences(encoder, 12, length=24):
        inputs, outputs = floating.layer_reference(encoder, sentence, index)
        x16 = integer_model.quantise_input(inputs, layer.input_scale)
        results.append({"x16": x16, **integer_model.run_layer(layer, x16)})
        references.append(outputs)
    return results, references


def agreement(layer, results, references, living=slice(None)):
    """How near the outputs are to float, over the channels that live."""
    found = [
        integer_model.dequantise(result["output16"], layer.output_scale)[:, living] for result in results
    ]
    return metrics.pooled(found, [reference[:, living] for reference in references])


def together(results, name):
    return np.concatenate([result[name] for result in results], axis=-2)


ROWS = [3, 8, 20]
CHANNELS = [1, 5, 9, 30]


def check_linear(name, result, layer, rows):
    """Rows of zeros give zeros, in every result that they alone decide."""
    if name == "attention.self.value":
        assert not together(result, "value")[:, rows].any() and not together(result, "context")[:, rows].any()
    elif name.startswith("attention.self."):
        assert not together(result, name.rpartition(".")[2])[:, rows].any()
    elif name == "intermediate.dense":
        assert not together(result, "hidden")[:, rows].any() and not layer.down.weight[:, rows].any()
    elif name == "attention.output.dense":
        assert np.array_equal(together(result, "attention_sum")[:, rows], together(result, "x16")[:, rows])
    else:
        total, residual = together(result, "ffn_sum"), together(result, "attention_out16")
        assert np.array_equal(total[:, rows], residual[:, rows])


@pytest.mark.parametrize("rows", [ROWS, slice(0, 16), slice(None)], ids=["rows", "half", "all"])
@pytest.mark.parametrize("name", WIDTHS)
def test_dead_rows_heads_and_matrices(name, rows):
    encoder = checkpoint()
    fill(encoder, name, rows)
    layer = quantised(encoder)
    result, reference = run(encoder, layer)
    check_linear(name, result, layer, rows)
    if rows == slice(None):  # a block that adds nothing isn't there
        assert (layer.heads == 0) == (name == "attention.output.dense")
        assert (layer.ffn == 0) == (name == "output.dense")
    found = agreement(layer, result, reference)
    assert found.cosine_mean >= 0.9999 and found.cosine_min >= 0.9995


@pytest.mark.parametrize("rows", [ROWS, slice(None)], ids=["rows", "all"])
@pytest.mark.parametrize("name", WIDTHS)
def test_rows_of_which_only_the_bias_lives(name, rows):
    encoder = checkpoint()
    fill(encoder, name, rows, bias=None)
    layer = quantised(encoder)
    found = agreement(layer, *run(encoder, layer))
    assert found.cosine_mean >= 0.9999 and found.cosine_min >= 0.9995


@pytest.mark.parametrize("name", WIDTHS)
def test_dead_columns_stay_zero(name):
    encoder = checkpoint()
    fill(encoder, name, (slice(None), ROWS), bias=None)
    layer = quantised(encoder)
    field = {"attention.output.dense": "output", "output.dense": "down"}.get(name, name.split(".")[-1])
    linear = getattr(layer, "intermediate" if field == "dense" else field)
    if name == "output.dense":  # what nobody reads isn't there
        assert layer.ffn - layer.ffn_copies == FFN - len(ROWS)
    else:
        assert not linear.weight[:, ROWS].any()
    found = agreement(layer, *run(encoder, layer))
    assert found.cosine_mean >= 0.9999 and found.cosine_min >= 0.9995


def test_heads_that_nobody_reads_are_not_there():
    encoder = checkpoint()
    whole = quantised(encoder)
    fill(encoder, "attention.output.dense", (slice(None), slice(0, HIDDEN // HEADS)), bias=None)
    layer = quantised(encoder)
    assert (whole.heads, layer.heads, len(layer.query.weight)) == (HEADS, 1, HIDDEN // HEADS)
    found = agreement(layer, *run(encoder, layer))
    assert found.cosine_mean >= 0.9999 and found.cosine_min >= 0.9995


@pytest.mark.parametrize(
    "weight, bias",
    [(0, 0), (0, None), (0, 1.0), (1e-41, 1e-41), (1e-4, 0), (-0.7, None)],
    ids=["dead", "constant", "constant 1", "denormal", "small", "negative"],
)
@pytest.mark.parametrize(
    "name, index",
    [
        ("embeddings.LayerNorm", 0),
        ("attention.output.LayerNorm", 0),
        ("output.LayerNorm", 0),
        ("output.LayerNorm", 1),
    ],
)
def test_layernorm_channels(name, index, weight, bias):
    encoder = checkpoint()
    fill(encoder, name, CHANNELS, weight=weight, bias=bias, index=index)
    layer = quantised(encoder, index)
    result, reference = run(encoder, layer, index)
    living = np.setdiff1d(np.arange(HIDDEN), CHANNELS if weight == bias else [])
    if weight == bias:
        where = {"embeddings": "x16", "attention": "attention_out16", "output": "output16"}
        assert not together(result, where[name.split(".")[0]])[:, CHANNELS].any()
    found = agreement(layer, result, reference, living)
    assert found.cosine_mean >= 0.9999 and found.cosine_min >= 0.9995


@pytest.mark.parametrize("bias", [0, None], ids=["dead", "constant"])
@pytest.mark.parametrize("name", ["embeddings.LayerNorm", *NORMS])
def test_layernorm_without_any_living_channel(name, bias):
    encoder = checkpoint()
    fill(encoder, name, bias=bias)
    layer = quantised(encoder)
    found = agreement(layer, *run(encoder, layer))
    assert found.cosine_min >= 0.9999


@pytest.mark.parametrize("name", WIDTHS)
@pytest.mark.parametrize("value", [0.02, 1e-41, 1e4], ids=["equal", "denormal", "huge"])
def test_odd_weights(name, value):
    encoder = checkpoint()
    fill(encoder, name, (5, 7) if value == 1e4 else slice(None), weight=value, bias=None)
    layer = quantised(encoder)
    found = agreement(layer, *run(encoder, layer))
    if value == 1e4:  # finite is all that can be asked for: one LSB of int8 is worth thousands
        assert np.isfinite(found.max_error)
    else:
        assert found.cosine_mean >= 0.9999 and found.cosine_min >= 0.9995


@pytest.mark.parametrize("name", [*WIDTHS, *NORMS])
def test_one_huge_bias(name):
    encoder = checkpoint()
    fill(encoder, name, 5, weight=None, bias=1e4)
    layer = quantised(encoder)
    assert agreement(layer, *run(encoder, layer)).cosine_mean >= 0.998


def test_float_overflow_is_refused():
    encoder = checkpoint()
    fill(encoder, "attention.self.value", weight=1e38, bias=None)
    with pytest.raises(UserError, match="float results must be finite for the calibration text"):
        quantize_layer(encoder, 0, SETTINGS)


def prune(encoder, generator):
    """Random parts of the model's first layer (and what it reads) become zero; returns what did."""
    done = []
    for name, (rows, columns) in WIDTHS.items():
        kind = generator.choice(["nothing", "rows", "biased rows", "columns", "head", "all", "sparse"])
        where = np.flatnonzero(generator.random(rows) < generator.random())
        if kind == "rows" or kind == "biased rows":
            fill(encoder, name, where, bias=0 if kind == "rows" else None)
        elif kind == "columns":
            fill(encoder, name, (slice(None), np.flatnonzero(generator.random(columns) < 0.5)), bias=None)
        elif kind == "head":
            fill(encoder, name, slice(0, rows // HEADS))
        elif kind == "all":
            fill(encoder, name)
        elif kind == "sparse":
            weight = part(encoder, name).weight.data
            weight[torch.from_numpy(generator.random(weight.shape) < 0.8)] = 0
        done.append(f"{name}: {kind}")
    for name in ("embeddings.LayerNorm", *NORMS):
        kind = generator.choice(["nothing", "dead", "constant", "negative"])
        where = np.flatnonzero(generator.random(HIDDEN) < generator.uniform(0, 0.7))
        if kind != "nothing":
            fill(
                encoder,
                name,
                where,
                weight=-0.6 if kind == "negative" else 0,
                bias=0 if kind == "dead" else None,
            )
        done.append(f"{name}: {kind}")
    return done


@pytest.mark.parametrize("seed", range(30))
def test_random_pruning(seed):
    generator = np.random.default_rng(seed)
    encoder = checkpoint(seed)
    print("seed", seed, *prune(encoder, generator), sep="\n")
    layer = quantised(encoder)
    result, reference = run(encoder, layer)
    living = np.concatenate(reference).any(axis=0)
    assert not together(result, "output16")[:, ~living].any()
    found = agreement(layer, result, reference, living)
    assert found.cosine_mean >= 0.9998 and found.cosine_min >= 0.998
