"""Embeddings are computed once, whoever asks, whatever happens to the files."""

import os
import threading

import numpy as np
import pytest

from bertha.evaluate import store as store_module
from bertha.evaluate.store import EmbeddingStore
from bertha.models.text import Sentence


def sentence(*ids):
    return Sentence("", np.array(ids), np.ones(len(ids), dtype=bool))


class Counting:
    """An embedding is a sentence's sum and length; asked for is every sentence that was."""

    name = "counting"

    def __init__(self, digest="one", threads=1):
        self.digest, self.threads = digest, threads
        self.asked = []
        self.lock = threading.Lock()

    def embed(self, sentences):
        with self.lock:
            self.asked += [tuple(one.ids) for one in sentences]
        return np.array([[one.ids.sum(), one.tokens] for one in sentences], np.float32)


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(store_module, "CHUNK_TOKENS", 4)


SENTENCES = [sentence(1), sentence(2, 3, 4), sentence(5, 6), sentence(1), sentence(7, 8, 9, 10, 11)]
RIGHT = [[1, 1], [9, 3], [11, 2], [1, 1], [45, 5]]


@pytest.mark.parametrize("threads", [1, 2])
def test_each_sentence_is_computed_once(tmp_path, small_chunks, threads):
    embedder, tokens = Counting(threads=threads), []
    store = EmbeddingStore(tmp_path)
    assert store.embed(embedder, SENTENCES, tokens.append).tolist() == RIGHT
    assert sorted(embedder.asked) == [(1,), (2, 3, 4), (5, 6), (7, 8, 9, 10, 11)]
    assert sum(tokens) == 12 and len(tokens) > 2
    again = Counting()
    for other in (store, EmbeddingStore(tmp_path)):
        tokens.clear()
        assert other.embed(again, SENTENCES, tokens.append).tolist() == RIGHT
        assert not again.asked and sum(tokens) == 12
    assert store.embed(again, [sentence(5, 6), sentence(12)]).tolist() == [[11, 2], [12, 1]]
    assert again.asked == [(12,)]


def test_models_are_kept_apart(tmp_path):
    EmbeddingStore(tmp_path).embed(Counting("one"), SENTENCES)
    other = Counting("two")
    EmbeddingStore(tmp_path).embed(other, SENTENCES)
    assert len(other.asked) == 4


def test_padding_is_no_part_of_a_sentence(tmp_path):
    store, embedder = EmbeddingStore(tmp_path), Counting()
    store.embed(embedder, [sentence(5, 6)])
    padded = Sentence("", np.array([5, 6, 0]), np.array([True, True, False]))
    assert store.embed(embedder, [padded]).tolist() == [[11, 2]] and len(embedder.asked) == 1


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 no archive"])
def test_a_damaged_file_is_made_anew(tmp_path, damage):
    EmbeddingStore(tmp_path).embed(Counting(), SENTENCES)
    (path,) = tmp_path.rglob("*.npz")
    path.write_bytes(damage or path.read_bytes()[:-40])
    embedder = Counting()
    assert EmbeddingStore(tmp_path).embed(embedder, SENTENCES).tolist() == RIGHT
    assert len(embedder.asked) == 4
    untouched = Counting()
    EmbeddingStore(tmp_path).embed(untouched, SENTENCES)
    assert not untouched.asked


def test_what_was_ready_before_an_error_is_kept(tmp_path, small_chunks):
    class Failing(Counting):
        def embed(self, sentences):
            if sentences[0].tokens == 1:  # the last chunk's
                raise KeyboardInterrupt
            return super().embed(sentences)

    with pytest.raises(KeyboardInterrupt):
        EmbeddingStore(tmp_path).embed(Failing(), [sentence(1), *([sentence(2, 3, 4, 5)])])
    embedder = Counting()
    EmbeddingStore(tmp_path).embed(embedder, [sentence(1), sentence(2, 3, 4, 5)])
    assert embedder.asked == [(1,)]


def test_a_folder_that_cannot_be_written_to(tmp_path):
    (tmp_path / "file").write_text("in the way")
    store = EmbeddingStore(tmp_path / "file")
    assert store.embed(Counting(), SENTENCES).tolist() == RIGHT
    assert os.listdir(tmp_path) == ["file"]
