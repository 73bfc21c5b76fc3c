"""Tokenizers made from a vocab.txt, and trained models that have none."""

import dataclasses
import json
import shutil

import pytest

from bertha.models import text
from bertha.models.encoder import load_model, minilm_folder
from bertha.models.tokenizer import TextError, find_tokenizer, load_tokenizer
from bertha.quantize.cache import cached_layer
from bertha.quantize.quantizer import Settings, calibration_sentences, quantize_layer

WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "the",
    "The",
    "##re",
    "caf\u00e9",
    "cafe",
    "\u4e2d",
    "\u6587",
    "\u4e2d\u6587",
    "[",
    "]",
    "mask",
]


@pytest.fixture
def vocabulary(tmp_path):
    """Writes a vocab.txt (and a tokenizer_config.json) and returns a function from a text to its tokens."""

    def write(words, end="\n", **config):
        path = tmp_path / "vocab.txt"
        path.write_bytes("".join(word + end for word in words).encode())
        if config:
            (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
        return lambda sentence: load_tokenizer(path).encode(sentence).tokens

    return write


def without_tokenizer_json(folder, *files):
    for name in ("config.json", "model.safetensors", *files):
        shutil.copy(minilm_folder() / name, folder / name)
    return load_model(folder)


@pytest.mark.parametrize("files", [["vocab.txt"], ["vocab.txt", "tokenizer_config.json"]])
def test_vocabulary_gives_the_ids_of_tokenizer_json(minilm, tmp_path, files):
    encoder = without_tokenizer_json(tmp_path, *files)
    assert encoder.tokenizer_file == tmp_path / "vocab.txt"
    texts = text.evaluation_texts(190, 3) + [
        "Caf\u00e9 na\u00efve \u00c5ngstr\u00f6m \u0130stanbul",
        "\u4e2d\u6587 \u65e5\u672c\u8a9e \ud55c\uad6d\uc5b4",
        "emoji \U0001f600 and \u200b zero width",
        "x" * 101,
        "tabs\tand\x07bells and \ufffd",
        "[PAD] [MASK] [CLS]",
        "e-mail@example.org, $3.50 (100%)!",
        "\u2028 line \u0085 ends \x0c",
        "a\u0301e\u0300",
        "UPPER lower MiXeD",
    ]
    assert len(texts) == 200
    for one, other in zip(text.tokenize(encoder, texts), text.tokenize(minilm, texts), strict=True):
        assert one.ids.tolist() == other.ids.tolist(), one.text


def test_cased_vocabulary_keeps_its_capitals(vocabulary):
    assert vocabulary(["A", *WORDS])("The the") == ["[CLS]", "The", "the", "[SEP]"]
    assert vocabulary(WORDS)("The the") == ["[CLS]", "the", "the", "[SEP]"]


def test_tokenizer_config_decides(vocabulary):
    accents = "caf\u00e9"
    assert vocabulary(WORDS, do_lower_case=False)("The") == ["[CLS]", "The", "[SEP]"]
    assert vocabulary(["A", *WORDS], do_lower_case=True)("The") == ["[CLS]", "the", "[SEP]"]
    assert vocabulary(WORDS, do_lower_case=True)(accents) == ["[CLS]", "cafe", "[SEP]"]
    assert vocabulary(WORDS, strip_accents=False)(accents) == ["[CLS]", accents, "[SEP]"]
    assert vocabulary(WORDS, do_lower_case=False, strip_accents=True)(accents) == ["[CLS]", "cafe", "[SEP]"]
    chinese = "\u4e2d\u6587"
    assert vocabulary(WORDS, tokenize_chinese_chars=True)(chinese) == ["[CLS]", *chinese, "[SEP]"]
    assert vocabulary(WORDS, tokenize_chinese_chars=False)(chinese) == ["[CLS]", chinese, "[SEP]"]


def test_special_tokens_of_another_name(vocabulary):
    words = ["<u>", "<s>", "</s>", "the", "[", "]"]
    names = {"unk_token": "<u>", "cls_token": {"content": "<s>"}, "sep_token": "</s>"}
    assert vocabulary(words, **names)("the dog") == ["<s>", "the", "<u>", "</s>"]


def test_carriage_returns_and_special_tokens_in_the_text(vocabulary):
    assert vocabulary(WORDS, end="\r\n")("there [MASK]") == [
        "[CLS]",
        "the",
        "##re",
        "[",
        "mask",
        "]",
        "[SEP]",
    ]


def test_broken_vocabularies(vocabulary, tmp_path):
    with pytest.raises(TextError, match=r"vocab.txt must hold the special token \[CLS\], but doesn't"):
        vocabulary(["[UNK]", "[SEP]", "the"])("the")
    with pytest.raises(TextError, match="do_lower_case must be true or false, not 'yes'"):
        vocabulary(WORDS, do_lower_case="yes")("the")
    (tmp_path / "tokenizer_config.json").write_text("{")
    with pytest.raises(TextError, match="tokenizer_config.json must be JSON"):
        load_tokenizer(tmp_path / "vocab.txt")
    (tmp_path / "vocab.txt").write_bytes(b"\xff\n")
    with pytest.raises(TextError, match="vocab.txt can't be read: it isn't UTF-8"):
        load_tokenizer(tmp_path / "vocab.txt")


def test_tokenizer_json_comes_first(tmp_path):
    assert find_tokenizer(tmp_path) is None
    (tmp_path / "vocab.txt").touch()
    assert find_tokenizer(tmp_path).name == "vocab.txt"
    (tmp_path / "tokenizer.json").touch()
    assert find_tokenizer(tmp_path).name == "tokenizer.json"


def test_trained_model_without_a_tokenizer_is_not_quantised(reduced, tmp_path):
    trained = dataclasses.replace(reduced, trained=True)
    few = Settings(calibration=2, length=8)
    for refused in (
        lambda: calibration_sentences(trained, few),
        lambda: quantize_layer(trained, 0, few),
        lambda: cached_layer(trained, 0, few, folder=tmp_path),
    ):
        with pytest.raises(TextError, match="needs a model with a tokenizer.json or a vocab.txt"):
            refused()
    assert len(calibration_sentences(reduced, few)) == 2
