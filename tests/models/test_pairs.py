"""Pairs of texts, and tokenizers made from vocabularies, give what Hugging Face's own tokenizers give."""

import json
import random

import numpy as np
import pytest
from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.trainers import BpeTrainer
from transformers import BertTokenizer, RobertaTokenizer, XLMRobertaTokenizer

from bertha.models import text
from bertha.models.embedding import float_hidden_states
from bertha.models.encoder import load_model
from bertha.models.tokenizer import TextError, find_tokenizer, load_tokenizer
from tests.models.checkpoints import own_states, tiny_model, write_model

WORDS = ["the", "film", "was", "a", "##s", "##ly", "good", "bad", "slow", "caf\u00e9", ",", ".", "?"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ROBERTA = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


def write_wordpiece(folder):
    (folder / "vocab.txt").write_text("\n".join([*SPECIAL, *WORDS]) + "\n")


def write_bpe(folder, **config):
    """A byte-level BPE learnt from a few sentences, as vocab.json and merges.txt."""
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    trainer = BpeTrainer(
        vocab_size=330, special_tokens=ROBERTA, initial_alphabet=ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(
        ["the film was a good film", "the caf\u00e9s were bad and slow"] * 9, trainer
    )
    model = json.loads(tokenizer.to_str())["model"]
    (folder / "vocab.json").write_text(json.dumps(model["vocab"]))
    pairs = [" ".join(pair) if isinstance(pair, list) else pair for pair in model["merges"]]
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(pairs) + "\n", encoding="utf-8")
    if config:
        (folder / "tokenizer_config.json").write_text(json.dumps(config))


def make(folder, family):
    """A tiny model with a vocabulary of the family's kind, and Hugging Face's tokenizer of it."""
    roberta = "roberta" in family
    changes = {"vocab_size": 400} if roberta else {"vocab_size": 40}
    model = tiny_model(family, **changes, max_position_embeddings=66 if roberta else 64)
    write_model(folder, model)
    if family == "xlm-roberta":
        pieces = [(piece, 0.0) for piece in ROBERTA[:4]]
        pieces += [(f"\u2581{word}", -3.0) for word in WORDS] + [
            (letter, -6.0) for letter in "\u2581abcdefgh"
        ]
        own = XLMRobertaTokenizer(vocab=pieces)
        own.save_pretrained(folder)
    elif roberta:
        write_bpe(folder)
        own = RobertaTokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"))
    else:
        write_wordpiece(folder)
        own = BertTokenizer(str(folder / "vocab.txt"))
    return load_model(folder), model, own


def random_texts(count, seed=11):
    print(f"seed {seed}")
    chooser = random.Random(seed)

    def some():
        words = [word.removeprefix("##") for word in WORDS] + ["unheard", "caf\u00e9s", "\u4e2d", "UPPER"]
        return " ".join(chooser.choices(words, k=chooser.randint(1, 14)))

    return [some() if chooser.random() < 0.3 else (some(), some()) for _ in range(count)]


@pytest.mark.parametrize("family", ["bert", "electra", "distilbert", "roberta", "xlm-roberta"])
@pytest.mark.parametrize("length", [None, 16, 7])
def test_ids_and_segments_of_each_family(family, length, tmp_path):
    encoder, _, own = make(tmp_path, family)
    texts = random_texts(60)
    options = {"truncation": True, "max_length": length or 64, "return_token_type_ids": True}
    if length:
        options["padding"] = "max_length"
    seen = set()
    for each, sentence in zip(texts, text.tokenize(encoder, texts, length), strict=True):
        right = own(*([each] if isinstance(each, str) else each), **options)
        assert sentence.ids.tolist() == right["input_ids"], each
        assert sentence.mask.astype(int).tolist() == right["attention_mask"]
        kinds = right["token_type_ids"] if family in ("bert", "electra") else [0] * len(sentence.ids)
        assert sentence.segments.tolist() == kinds and sentence.segments.dtype == np.int64
        whole = own(*([each] if isinstance(each, str) else each))["input_ids"]
        assert sentence.truncated == (len(whole) > (length or 64))
        assert sentence.text == (each if isinstance(each, str) else " | ".join(each))
        seen.update(sentence.segments)
    assert seen == ({0, 1} if family in ("bert", "electra") else {0})


@pytest.mark.parametrize("family", ["bert", "electra", "distilbert", "roberta"])
def test_hidden_states_of_a_pair(family, tmp_path):
    encoder, model, _ = make(tmp_path, family)
    (sentence,) = text.tokenize(encoder, [("the film was good", "a slow caf\u00e9 ?")], 24)
    for one, other in zip(float_hidden_states(encoder, sentence), own_states(model, sentence)):
        np.testing.assert_allclose(one[sentence.mask], other[sentence.mask], rtol=0, atol=1e-5)
    trimmed = text.trim(sentence)
    assert trimmed.segments.tolist() == sentence.segments[sentence.mask].tolist()
    last = float_hidden_states(encoder, trimmed)[-1]
    np.testing.assert_allclose(last, float_hidden_states(encoder, sentence)[-1][sentence.mask], atol=1e-5)


def test_segments_that_the_model_has_no_embedding_for(tmp_path):
    write_wordpiece(tmp_path)
    encoder = load_model(write_model(tmp_path, tiny_model("bert", type_vocab_size=1)))
    assert text.tokenize(encoder, ["the film"])[0].tokens == 4
    with pytest.raises(text.TextError, match="segment ids must be below the model's 1, but .* gives 1"):
        text.tokenize(encoder, [("the film", "good")])


def test_pairs_without_tokens_and_short_lengths(tmp_path):
    encoder, _, _ = make(tmp_path, "bert")
    with pytest.raises(TextError, match="a text must have at least one token, but ' | ' has none"):
        text.tokenize(encoder, [("", "")])
    assert text.tokenize(encoder, [("film", "")])[0].segments.tolist() == [0, 0, 0, 1]
    assert [text.tokenize(encoder, [("film", "good")], size)[0].tokens for size in (1, 3, 4)] == [1, 3, 4]


def test_sentence_needs_segments_for_every_token():
    ids, mask = np.arange(4), np.ones(4, dtype=bool)
    assert text.Sentence("", ids, mask).segments.tolist() == [0] * 4
    with pytest.raises(ValueError, match="one id, mask and segment a token, not 4, 4 and 3"):
        text.Sentence("", ids, mask, segments=np.zeros(3, dtype=np.int64))


def test_lower_case_of_sentence_transformers(tmp_path):
    encoder, _, _ = make(tmp_path, "roberta")
    capitals = ["THE Film", ("THE Film", "A")]
    upper = text.tokenize(encoder, capitals)
    (tmp_path / "sentence_bert_config.json").write_text('{"do_lower_case": true}')
    lower = text.tokenize(load_model(tmp_path), capitals)
    right = text.tokenize(encoder, ["the film", ("the film", "a")])
    for one, other, before in zip(lower, right, upper):
        assert one.ids.tolist() == other.ids.tolist() != before.ids.tolist()


@pytest.mark.parametrize("prefix", [True, False])
def test_byte_level_bpe(tmp_path, prefix):
    write_bpe(tmp_path, add_prefix_space=prefix)
    path = find_tokenizer(tmp_path)
    assert path == tmp_path / "vocab.json"
    own = RobertaTokenizer(str(path), str(tmp_path / "merges.txt"), add_prefix_space=prefix)
    tokenizer = load_tokenizer(path)
    for each in ("the film", " the  film\t", "caf\u00e9s \u4e2d\u6587 \U0001f600", "x" * 50, "a<b"):
        assert tokenizer.encode(each).ids == own(each)["input_ids"], each
    assert "<mask>" not in tokenizer.encode("a <mask>").tokens


def test_merges_must_be_beside_the_vocabulary(tmp_path):
    write_bpe(tmp_path)
    (tmp_path / "merges.txt").unlink()
    assert find_tokenizer(tmp_path) is None


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("vocab.json", "{", "vocab.json must be JSON"),
        ("vocab.json", "[]", "vocab.json must be a JSON object, not a list"),
        ("vocab.json", "{}", "vocab.json must give a number to every token"),
        ("vocab.json", '{"a": "b"}', "vocab.json must give a number to every token"),
        ("vocab.json", '{"a": 0}', "vocab.json must hold the special token <s>"),
        ("vocab.json", '{"a": -1}', "vocab.json must give a number to every token"),
        ("merges.txt", "no merge here", "merges.txt must have two tokens a line, not 'no merge here'"),
        ("merges.txt", "\u4e00 \u4e01", "merges.txt must merge tokens of vocab.json, but can't"),
        ("tokenizer_config.json", '{"add_prefix_space": 1}', "add_prefix_space must be true or false"),
    ],
)
def test_bad_byte_level_bpe(tmp_path, name, content, message):
    write_bpe(tmp_path)
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(TextError, match=message):
        load_tokenizer(tmp_path / "vocab.json")
