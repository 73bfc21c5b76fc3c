"""Whole models: every recipe is near float, links hold, odd shapes and all families' parts are quantised."""

import numpy as np
import pytest
import torch
from transformers.activations import ACT2FN

from bertha.errors import UserError
from bertha.golden import integer_model
from bertha.models.embedding import embedding_sums, float_hidden_states
from bertha.models.encoder import synthetic_bert
from bertha.quantize.cache import cached_model
from bertha.quantize.model import quantize_model
from bertha.quantize.quantizer import Settings, calibration_sentences, evaluation_sentences
from bertha.quantize.recipes import RECIPES

SETTINGS = Settings(calibration=40, length=32)


def embedding(states):
    mean = states.astype(np.float64).mean(axis=0)
    return mean / np.linalg.norm(mean)


def cosines(encoder, model, sentences):
    """Of mean-pooled embeddings, integer against float."""
    sums = [embedding_sums(encoder, sentence) for sentence in sentences]
    inputs = [integer_model.quantise_input(part, model.embedding_scale) for part in sums]
    found = integer_model.run_sentences(model, inputs)
    right = [float_hidden_states(encoder, sentence)[-1] for sentence in sentences]
    return np.array([embedding(a) @ embedding(b) for a, b in zip(found, right, strict=True)])


@pytest.fixture(scope="module")
def by_recipe(reduced):
    return {recipe: quantize_model(reduced, recipe, SETTINGS) for recipe in RECIPES}


@pytest.mark.parametrize("recipe", RECIPES)
def test_recipes_are_near_float(reduced, by_recipe, recipe):
    sentences = [
        s for length in (4, 9, 30) for s in evaluation_sentences(reduced, 8, length=length, seed=length)
    ]
    found = cosines(reduced, by_recipe[recipe], sentences)
    assert found.min() >= 0.998 and found.mean() >= 0.9995


def test_recipes_differ_in_what_they_spend(by_recipe):
    def wide(model):
        return sum(
            layer.wide_operand(name)
            for layer in model.layers
            for name in ("query", "output", "intermediate", "down")
        )

    assert wide(by_recipe["w8a8"]) == 0 and wide(by_recipe["a16"]) == 8
    for layer in by_recipe["w8a8"].layers:
        assert not layer.input_quantize.residue.any() and not layer.hidden_residue.any()


def test_unknown_recipe(reduced):
    with pytest.raises(UserError, match="recipe must be one of w8a8, w8a8-split, mixed, a16, not 'fp8'"):
        quantize_model(reduced, "fp8", SETTINGS)


def test_odd_heads_are_padded():
    encoder = synthetic_bert(hidden=30, heads=6, ffn=40, layers=2, name="odd")
    model = quantize_model(encoder, "w8a8", SETTINGS)
    for layer in model.layers:
        assert (layer.heads, layer.head_dim, layer.width) == (6, 6, 36)
        last = np.arange(36) % 6 == 5
        assert not layer.query.weight[last].any() and not layer.output.weight[:, last].any()
    assert cosines(encoder, model, evaluation_sentences(encoder, 10, length=20)).min() >= 0.998


@pytest.mark.parametrize("activation", ["relu", "silu", "gelu_new"])
def test_activations(activation):
    encoder = synthetic_bert(hidden=32, heads=2, ffn=64, layers=1, name=activation)
    encoder.config.hidden_act = activation
    for layer in encoder.bert.encoder.layer:
        layer.intermediate.intermediate_act_fn = ACT2FN[activation]
    for recipe in ("w8a8", "a16"):
        model = quantize_model(encoder, recipe, SETTINGS)
        assert cosines(encoder, model, evaluation_sentences(encoder, 10, length=20)).min() >= 0.998


def test_cached_model(tmp_path, reduced, by_recipe):
    lines = []
    first = cached_model(reduced, "a16", SETTINGS, folder=tmp_path, notify=lines.append)
    assert len(lines) == 3
    (path,) = tmp_path.iterdir()
    stamp = path.stat().st_mtime_ns
    again = cached_model(reduced, "a16", SETTINGS, folder=tmp_path)
    assert path.stat().st_mtime_ns == stamp
    for model in (first, again):
        assert np.array_equal(model.layers[1].down.weight, by_recipe["a16"].layers[1].down.weight)
    cached_model(reduced, "w8a8", SETTINGS, folder=tmp_path)
    cached_model(reduced, "a16", Settings(calibration=41, length=32), folder=tmp_path)
    assert len(list(tmp_path.iterdir())) == 3
    path.write_bytes(path.read_bytes()[:1000])
    assert cached_model(reduced, "a16", SETTINGS, folder=tmp_path).hidden == 32


def test_own_calibration_text(minilm):
    texts = ("A fine film.", "def f(x): return x", "The cat sat on the mat.")
    settings = Settings(texts=texts)
    assert [s.text for s in calibration_sentences(minilm, settings)] == list(texts)


def test_longest_texts_are_calibrated(minilm):
    lengths = [s.tokens for s in calibration_sentences(minilm)]
    assert min(lengths) == 3 and max(lengths) > 250 and np.median(lengths) < 30
    assert max(s.tokens for s in calibration_sentences(minilm, Settings(length=20))) == 20


def test_dead_model_is_quantised():
    encoder = synthetic_bert(hidden=32, heads=2, ffn=64, layers=1, name="dead")
    with torch.no_grad():
        encoder.bert.embeddings.LayerNorm.weight.zero_()
    for recipe in ("w8a8", "a16"):
        assert (
            cosines(
                encoder, quantize_model(encoder, recipe, SETTINGS), evaluation_sentences(encoder, 3)
            ).min()
            > 0.99
        )
