"""Both sides give each sentence what it has alone, in any company."""

import numpy as np
import pytest
import torch

from bertha.evaluate import embedders
from bertha.evaluate.embedders import FloatEmbedder, IntegerEmbedder, pooled, processors
from bertha.golden import integer_model
from bertha.models.embedding import embedding_sums
from bertha.models.text import random_sentences
from tests.golden.models import random_model


@pytest.fixture(scope="module")
def sentences(reduced):
    return [random_sentences(reduced, 1, length, seed=length)[0] for length in (3, 17, 5, 30, 5)]


def test_float_embeddings(reduced, sentences, monkeypatch):
    monkeypatch.setattr(embedders, "PADDED_TOKENS", 40)  # so that there are several batches
    found = FloatEmbedder(reduced).embed(sentences)
    states = FloatEmbedder(reduced).states(sentences)
    assert found.shape == (5, 32) and found.dtype == np.float32
    for vector, layers, sentence in zip(found, states, sentences, strict=True):
        ids = torch.from_numpy(sentence.ids)[None]
        with torch.inference_mode():
            right = reduced.bert(input_ids=ids, output_hidden_states=True).hidden_states
        mean = right[-1][0].numpy().mean(axis=0)
        assert np.allclose(vector, mean / np.linalg.norm(mean), atol=1e-6)
        assert len(layers) == len(right) == 3
        for state, exact in zip(layers, right):
            assert np.allclose(state, exact[0], atol=1e-5)


@pytest.mark.parametrize("wide", [(), [(0, "down"), (1, "projections"), (0, "projections")]])
def test_integer_embeddings_and_states(reduced, sentences, wide):
    model = random_model(seed=3, hidden=32, wide=wide)
    embedder = IntegerEmbedder(reduced, "w8a8", model)
    saturations, counted = {}, {}
    states = embedder.states(sentences, saturations)
    vectors = embedder.embed(sentences)
    sums = [
        integer_model.quantise_input(embedding_sums(reduced, sentence), model.embedding_scale)
        for sentence in sentences
    ]
    for layers, vector, embedded16 in zip(states, vectors, sums, strict=True):
        right = integer_model.run_model(model, embedded16)
        for state, layer, exact in zip(layers, model.layers, right["layers"], strict=True):
            assert np.array_equal(state, exact["output16"] * layer.output_scale)
        assert np.allclose(vector, pooled(reduced, layers[-1]), atol=1e-6)
        assert np.linalg.norm(vector) == pytest.approx(1)
    integer_model.run_sentences(model, sums, counted)
    assert saturations == counted and any(saturations.values())


def test_processors(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    available = processors()
    assert available >= 1
    for asked, number in (("1", 1), ("0", available), ("many", available), ("9999", available)):
        monkeypatch.setenv("OMP_NUM_THREADS", asked)
        assert processors() == number
