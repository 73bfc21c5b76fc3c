import dataclasses

import numpy as np
import pytest

from bertha.models import text


def test_evaluation_text_is_never_calibration_text():
    calibration, evaluation = text.reviews("calibration"), text.reviews("evaluation")
    assert not {review.text for review in calibration} & {review.text for review in evaluation}
    assert text.calibration_texts(20, 3) == text.calibration_texts(20, 3) != text.calibration_texts(20, 4)


def test_long_text_fills_128_tokens(minilm):
    (sentence,) = text.tokenize(minilm, [text.long_text()], 128)
    assert sentence.tokens == 128


def test_shorter_sentence_is_padded_and_masked(minilm):
    short, long = text.tokenize(minilm, ["A fine film.", "word " * 40], 16)
    assert short.tokens == 6 and short.mask.tolist() == [True] * 6 + [False] * 10
    assert np.all(short.ids[6:] == minilm.config.pad_token_id)
    assert short.ids[0] == 101 and short.ids[5] == 102
    assert (long.truncated, short.truncated, long.tokens, long.ids[-1]) == (True, False, 16, 102)
    assert text.trim(short).ids.tolist() == short.ids[:6].tolist()


@pytest.mark.parametrize("length", [0, -1, 513])
def test_bad_length(minilm, length):
    with pytest.raises(text.TextError, match="sequence length must be from 1 to the model's 512"):
        text.tokenize(minilm, ["words"], length)


def test_lengths_below_the_special_tokens(minilm):
    assert [text.tokenize(minilm, ["words"], length)[0].tokens for length in (1, 2)] == [1, 2]


def test_text_file(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("First one.\n\n  Second one. \n", encoding="utf-8")
    assert text.read_sentences(path) == ["First one.", "Second one."]
    path.write_text("\n \n")
    with pytest.raises(text.TextError, match="at least one sentence, but is empty"):
        text.read_sentences(path)
    path.write_bytes(b"\xff\xfe\xff")
    with pytest.raises(text.TextError, match="isn't UTF-8"):
        text.read_sentences(path)
    with pytest.raises(text.TextError, match="can't be read: No such file"):
        text.read_sentences(tmp_path / "absent.txt")


def test_only_a_line_feed_ends_a_line(tmp_path):
    path = tmp_path / "text.txt"
    inside = "one\u2028two\u0085three\x0cfour\x0bfive\rsix\x1cseven"
    path.write_bytes(b"\xef\xbb\xbf" + f"{inside}\r\nsecond\n".encode())
    assert text.read_sentences(path) == [inside, "second"]


def test_special_tokens_in_a_text_are_plain_text(minilm):
    texts = ["a [PAD] b", "[CLS] a", "a [SEP]", "[MASK]", "[UNK]"]
    plain = [t.replace("[", " [ ").replace("]", " ] ") for t in texts]
    for sentence, same in zip(text.tokenize(minilm, texts), text.tokenize(minilm, plain), strict=True):
        assert sentence.ids.tolist() == same.ids.tolist() and sentence.mask.all()
        assert not set(sentence.ids[1:-1].tolist()) & {0, 100, 101, 102, 103}


@pytest.mark.parametrize("nothing", ["", " ", "\x00\x01\x02", "\u200b", "\u0301"])
def test_text_without_any_token(minilm, nothing):
    with pytest.raises(text.TextError, match="a text must have at least one token, but .* has none"):
        text.tokenize(minilm, ["words", nothing], 8)


def test_more_texts_than_there_are():
    with pytest.raises(text.TextError, match="calibration texts must be from 1 to [0-9]+, not 1000000"):
        text.calibration_texts(1_000_000)
    with pytest.raises(text.TextError, match="evaluation texts must be from 1 to [0-9]+, not 0"):
        text.evaluation_texts(0)


def test_token_that_the_model_does_not_know(reduced, minilm):
    stranger = dataclasses.replace(reduced, tokenizer_file=minilm.tokenizer_file)
    with pytest.raises(text.TextError, match="token ids must be below the model's 1000"):
        text.tokenize(stranger, ["words"])


def test_model_without_tokenizer(reduced):
    with pytest.raises(text.TextError, match="needs a model with a tokenizer.json"):
        text.tokenize(reduced, ["words"], 8)
    first, again = (text.random_sentences(reduced, 2, 9, seed=4) for _ in range(2))
    assert np.array_equal(first[1].ids, again[1].ids) and first[0].ids.shape == (9,)
