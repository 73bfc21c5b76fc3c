"""The corpus of real texts: how many, of which kinds, and never calibration text."""

from collections import Counter

import pytest

from bertha.models import text
from bertha.models.calibration_text import DIVERSE_TEXTS
from bertha.models.corpus import corpus

DOMAINS = {
    "reviews",
    "news",
    "encyclopaedia",
    "code",
    "documentation",
    "latex",
    "languages",
    "repeated",
    "punctuation",
}


@pytest.mark.parametrize("seed", [0, 1])
def test_size_and_kinds(minilm, seed):
    texts = corpus(seed)
    assert len(texts) >= 400 and len({item.text for item in texts}) == len(texts)
    counts = Counter(item.domain for item in texts)
    assert set(counts) == DOMAINS and min(counts.values()) >= 20
    tokens = [sentence.tokens for sentence in text.tokenize(minilm, [item.text for item in texts], 128)]
    assert sum(3 <= number <= 9 for number in tokens) >= len(texts) / 4
    assert max(tokens) == 128


def test_the_seed_chooses():
    assert corpus(0) == corpus(0) != corpus(1)
    # What is written doesn't depend on it.
    assert [item for item in corpus(0) if item.domain == "news"] == [
        item for item in corpus(1) if item.domain == "news"
    ]


def test_no_text_is_a_calibration_text():
    """Nor has a short one the words of one."""
    available = text.reviews("calibration")
    calibration = {one for review in available for one in (review.text, *text.split_sentences(review.text))}
    calibration |= set(DIVERSE_TEXTS)
    texts = {item.text for item in corpus(0)}
    assert not texts & calibration
    short = {one for one in texts if len(one) < 40}
    words = {frozenset(one.lower().split()) for one in calibration if len(one) < 40}
    assert len(short) > 100 and not words & {frozenset(one.lower().split()) for one in short}
