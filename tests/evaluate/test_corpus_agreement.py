import numpy as np
import pytest

from bertha.evaluate import corpus_agreement as module
from bertha.evaluate.corpus_agreement import Cosines, corpus_agreement
from bertha.evaluate.embedders import FloatEmbedder, IntegerEmbedder
from bertha.models.text import random_sentences
from tests.golden.models import random_model


class Disturbed(IntegerEmbedder):
    """The float model's states plus noise in one place, which grows with the layer."""

    def states(self, sentences, saturations=None):
        saturations["layer 1: hidden"] = saturations.get("layer 1: hidden", 0) + len(sentences)
        saturations["layer 0: hidden"] = 0
        results = []
        for layers in FloatEmbedder(self.encoder).states(sentences):
            kept = [state.astype(np.float64) for state in layers[1:]]
            for layer, state in enumerate(kept):
                state[0, 3] += self.size * (layer + 1)
            results.append(kept)
        return results


def disturbed(encoder, size):
    embedder = Disturbed(encoder, "w8a8", random_model(seed=0, hidden=32))
    object.__setattr__(embedder, "size", size)
    return embedder


def test_figures(reduced, monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 3)
    lengths = [20, 3, 9, 10, 2, 40, 5]
    sentences = [random_sentences(reduced, 1, length, seed=length)[0] for length in lengths]
    domains = ["a", "b", "a", "b", "a", "b", "c"]
    reference, tokens = FloatEmbedder(reduced), []
    found = corpus_agreement(reference, disturbed(reduced, 2.0), sentences, domains, tokens.append)
    assert sum(tokens) == sum(lengths) and len(tokens) == 3

    cosines = []
    for (state,) in [layers[-1:] for layers in reference.states(sentences)]:
        exact = state.mean(axis=0, dtype=np.float64)
        moved = exact + 4.0 / len(state) * np.eye(32)[3]
        cosines.append(exact @ moved / np.linalg.norm(exact) / np.linalg.norm(moved))
    assert found.cosines == pytest.approx(cosines, abs=1e-6)
    assert found.overall == Cosines.of(found.cosines) and found.overall.sentences == 7
    assert found.overall.min == min(found.cosines) and found.worst(1) == [4]
    assert found.short == Cosines.of([found.cosines[index] for index in (1, 2, 6)])
    assert list(found.domains) == ["a", "b", "c"]
    assert found.domains["b"] == Cosines.of([found.cosines[index] for index in (1, 3, 5)])

    signal = sum(np.square(layers[2], dtype=np.float64).sum() for layers in reference.states(sentences))
    assert found.snr_db[1] == pytest.approx(10 * np.log10(signal / (7 * 16)), abs=1e-4)
    assert found.snr_db[0] > found.snr_db[1]
    # Of 20 and of 9 neurons a token (`random_model`).
    assert found.saturated_share == {"hidden": pytest.approx(7 / (sum(lengths) * (20 + 9)))}


def test_without_any_difference(reduced):
    sentences = random_sentences(reduced, 3, 12)
    found = corpus_agreement(FloatEmbedder(reduced), disturbed(reduced, 0.0), sentences, ["a"] * 3)
    assert found.overall.min == pytest.approx(1, abs=1e-6)
    assert found.snr_db == [float("inf")] * 2 and found.short is None
