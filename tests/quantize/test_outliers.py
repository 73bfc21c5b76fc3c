"""A LayerNorm channel far larger than the rest, as real checkpoints have them: the others keep their accuracy."""

import copy
import dataclasses

import numpy as np
import pytest
import torch

from bertha.golden import integer_model, metrics
from bertha.models.embedding import embedding_sums, float_hidden_states
from bertha.quantize.model import quantize_model
from bertha.quantize.quantizer import Duplicates, Settings, evaluation_sentences
from bertha.quantize.recipes import SHARES, choose

CHANNEL = 7


def with_outlier(encoder, factor):
    """The model's first layer with one channel of the embedding LayerNorm `factor` times as large."""
    bert = copy.deepcopy(encoder.bert)
    bert.encoder.layer = bert.encoder.layer[:1]
    bert.config.num_hidden_layers = 1
    with torch.no_grad():
        bert.embeddings.LayerNorm.weight[CHANNEL] *= factor
        bert.embeddings.LayerNorm.bias[CHANNEL] *= factor
    return dataclasses.replace(encoder, bert=bert)


@pytest.mark.parametrize("factor, mean, worst", [(100, 0.998, 0.95), (1000, 0.95, None)])
def test_others_keep_their_accuracy(minilm, factor, mean, worst):
    encoder = with_outlier(minilm, factor)
    model = quantize_model(encoder, "w8a8-split", Settings(calibration=60, length=64))
    assert model.layers[0].input_quantize.wide
    sentences = evaluation_sentences(encoder, 20) + evaluation_sentences(encoder, 10, length=9, seed=3)
    sums = [embedding_sums(encoder, sentence) for sentence in sentences]
    inputs = [integer_model.quantise_input(part, model.embedding_scale) for part in sums]
    others = np.arange(model.hidden) != CHANNEL
    found = metrics.pooled(
        [part[:, others] * model.output_scale for part in integer_model.run_sentences(model, inputs)],
        [float_hidden_states(encoder, sentence)[-1][:, others] for sentence in sentences],
    )
    assert found.cosine_mean >= mean
    if worst is not None:
        assert found.cosine_min >= worst


def plan(errors, needed=None, budget=0.1):
    costs = np.tile([0.12, 0.04, 0.17, 0.17], (len(errors), 1))
    channels = np.tile([32, 32, 32, 64], (len(errors), 1))
    needed = np.zeros(errors.shape[:2], dtype=bool) if needed is None else needed
    return choose(errors, needed, costs, channels, budget)


def test_cycles_go_where_they_gain_most():
    errors = np.zeros((2, 4, len(SHARES)))
    errors[0, 1] = 1.0  # nothing but a wide operand helps
    errors[1, 3] = 0.5, 0.1, 0.1
    first, second = plan(errors)
    assert first.wide == {"output", "value"} and first.duplicates == Duplicates()
    assert second.wide == {"value"} and second.duplicates == Duplicates(down=2)
    assert plan(errors, budget=0.0) == plan(np.zeros_like(errors))


def test_an_outlier_is_wide_beyond_the_budget():
    needed = np.zeros((2, 4), dtype=bool)
    needed[1, 0] = True
    first, second = plan(np.zeros((2, 4, len(SHARES))), needed, budget=0.0)
    assert first.wide == {"value"} and second.wide == {"projections", "value"}
