"""The interface that users of sentence-transformers know."""

import numpy as np
import pytest
import torch

import bertha
from bertha.errors import UserError
from tests.bertha.small import TEXTS, random_integers, small_folder, small_model


@pytest.fixture(scope="module")
def artifact(tmp_path_factory):
    return bertha.compile_model(small_model(tmp_path_factory.mktemp("model")), "tiny4", 24)


def test_encode(artifact):
    embedder = bertha.Embedder(artifact)
    vectors = embedder.encode(TEXTS)
    assert (vectors.dtype, vectors.shape) == (np.float32, (len(TEXTS), 20))
    np.testing.assert_array_equal(vectors, bertha.run_model(artifact, TEXTS).embeddings)
    assert embedder.report.sentences == len(TEXTS)
    np.testing.assert_array_equal(embedder.encode(TEXTS[1]), vectors[1])
    np.testing.assert_array_equal(embedder.encode(TEXTS, batch_size=1, show_progress_bar=True), vectors)
    assert embedder.get_sentence_embedding_dimension() == 20
    assert embedder.max_seq_length == 24
    assert embedder.encode([]).shape == (0, 20)


def test_kinds_of_results(artifact):
    embedder = bertha.Embedder(artifact)
    vectors = embedder.encode(TEXTS)
    tensor = embedder.encode(TEXTS, convert_to_tensor=True)
    assert isinstance(tensor, torch.Tensor) and torch.equal(tensor, torch.from_numpy(vectors))
    listed = embedder.encode(TEXTS, convert_to_numpy=False)
    assert isinstance(listed, list) and np.array_equal(listed, vectors)
    unit = embedder.encode(TEXTS, normalize_embeddings=True)
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1, atol=1e-6)
    tokens = embedder.encode(TEXTS, output_value="token_embeddings")
    np.testing.assert_allclose([rows.mean(axis=0) for rows in tokens], vectors, rtol=0, atol=1e-5)
    one = embedder.encode(TEXTS[0], output_value="token_embeddings", convert_to_tensor=True)
    assert torch.equal(one, torch.from_numpy(tokens[0]))
    with pytest.raises(UserError, match="output_value must be one of .*, not 'both'"):
        embedder.encode(TEXTS, output_value="both")


def test_loaded_from_a_file_and_run_on_the_accelerator(artifact, tmp_path):
    artifact.save(tmp_path / "model.bertha")
    embedder = bertha.Embedder.load(tmp_path / "model.bertha")
    vectors = embedder.encode(TEXTS)
    np.testing.assert_array_equal(vectors, bertha.Embedder(artifact).encode(TEXTS))
    np.testing.assert_array_equal(embedder.encode(TEXTS, backend="rtl"), vectors)
    assert embedder.report.cycles > 0


def test_from_a_models_folder(tmp_path, monkeypatch):
    calls = []

    def quantised(encoder, recipe, settings, *, folder, notify=None):
        calls.append(recipe)
        return random_integers(encoder)

    monkeypatch.setattr("bertha.quantize.cache.cached_model", quantised)
    embedder = bertha.Embedder.from_pretrained(small_folder(tmp_path), "mixed")
    assert embedder.encode("the film").shape == (20,)
    assert calls == ["mixed"] and embedder.max_seq_length == 64
    with pytest.raises(UserError, match="the accelerator needs a program"):
        embedder.encode("the film", backend="rtl")
