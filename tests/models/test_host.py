"""The host's part of a model gives the same without the checkpoint."""

import json

import numpy as np
import pytest
from safetensors.torch import load, save

from bertha.models import text
from bertha.models.embedding import embedding_sums
from bertha.models.encoder import load_model
from bertha.models.host import HostModel
from bertha.models.text import TextError
from tests.models.checkpoints import CLASSES, random_sentence, tiny_model, write_model
from tests.models.test_pairs import make
from tests.models.test_pooling import write_dense, write_modules

TEXTS = ["the film was good", ("a bad film", "slow ?"), "the [MASK] , was slow", "caf\u00e9"]


def restored(encoder):
    """The host's part by way of JSON, tensors' bytes and the tokenizer's text."""
    host = HostModel.from_encoder(encoder)
    return HostModel.restore(
        json.loads(json.dumps(host.describe())), load(save(host.tensors())), host.tokenizer_json()
    )


@pytest.mark.parametrize("family", CLASSES)
def test_tokens_and_embeddings_of_each_family(family, tmp_path):
    make(tmp_path, family)
    encoder = load_model(tmp_path)
    host = restored(encoder)
    assert (host.family, host.digest, host.embedding_norm) == (family, encoder.digest, encoder.embedding_norm)
    for mine, right in zip(host.tokenize(TEXTS), text.tokenize(encoder, TEXTS), strict=True):
        np.testing.assert_array_equal(mine.ids, right.ids)
        np.testing.assert_array_equal(mine.segments, right.segments)
        np.testing.assert_array_equal(host.embed(mine), embedding_sums(encoder, right))


def test_an_electra_with_a_projection(tmp_path):
    encoder = load_model(write_model(tmp_path, tiny_model("electra", embedding_size=12)))
    host = restored(encoder)
    assert not host.embedding_norm
    sentence = random_sentence(encoder, 7, segments=3)
    np.testing.assert_array_equal(host.embed(sentence), embedding_sums(encoder, sentence))


@pytest.mark.parametrize("family", CLASSES)
def test_heads_of_each_family(family, tmp_path):
    model = tiny_model(family, "ForSequenceClassification", id2label={0: "no", 1: "yes"})
    encoder = load_model(write_model(tmp_path, model))
    host = restored(encoder)
    hidden = np.random.default_rng(1).normal(size=(5, 20))
    assert host.classifier.labels == ("no", "yes")
    np.testing.assert_array_equal(
        host.classifier.probabilities(hidden), encoder.classifier.probabilities(hidden)
    )
    assert host.tokenizer is None
    with pytest.raises(TextError, match="text needs a model with a tokenizer"):
        host.tokenize(["a"])


def test_pooling_with_a_linear_layer(tmp_path):
    write_model(tmp_path, tiny_model("bert"))
    write_modules(tmp_path, "Pooling", "Dense", "Normalize", pooling={"pooling_mode_max_tokens": True})
    write_dense(tmp_path / "2_Dense", 20, 7)
    encoder = load_model(tmp_path)
    host = restored(encoder)
    hidden = np.random.default_rng(3).normal(size=(5, 20))
    mask = np.arange(5) < 4
    assert host.dimension == 7
    np.testing.assert_array_equal(host.pooling(hidden, mask), encoder.pooling(hidden, mask))
    assert np.linalg.norm(host.pooling(hidden, mask)) == pytest.approx(1)


def test_texts_are_cut_and_what_was_cut_before_leaves_no_trace(tmp_path):
    make(tmp_path, "bert")
    (tmp_path / "sentence_bert_config.json").write_text(
        json.dumps({"max_seq_length": 9, "do_lower_case": True})
    )
    encoder = load_model(tmp_path)
    host = HostModel.from_encoder(encoder)
    before = host.tokenizer_json()
    long = "THE film was a film , a film , a film"
    (cut,), (shorter,) = host.tokenize([long]), host.tokenize([long], 4)
    assert (cut.tokens, cut.truncated, shorter.tokens, host.longest) == (9, True, 4, 9)
    assert host.tokenizer_json() == before
    assert restored(encoder).tokenize([long])[0].ids.tolist() == cut.ids.tolist()


def test_of_a_folders_path_the_name_is_kept(tmp_path):
    folder = tmp_path / "my model"
    folder.mkdir()
    make(folder, "bert")
    assert HostModel.from_encoder(load_model(folder)).name == "my model"
