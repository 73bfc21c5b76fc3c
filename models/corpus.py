"""The corpus that whole models are evaluated on: real texts of several domains, none of them calibration text.

Film reviews come from an installed package, code and its documentation from Python's standard library as it is
installed, everything else from `corpus.txt` beside this file. So code depends on Python's version.
"""

import ast
import importlib
import inspect
import random
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from textwrap import dedent

from bertha.models import text
from bertha.models.calibration_text import DIVERSE_TEXTS

__all__ = ["CorpusText", "corpus"]

WRITTEN = Path(__file__).with_name("corpus.txt")
HEADING = "== "

LIBRARY = (
    "argparse calendar collections colorsys configparser csv datetime difflib fractions functools gettext heapq "
    "inspect ipaddress json.decoder logging mailbox queue random shlex statistics string tarfile textwrap "
    "threading tokenize traceback typing urllib.parse uuid zipfile"
).split()
"""Modules of the standard library that code and documentation are taken from."""

SHORT_LETTERS = 60

SHORT_WORDS = range(1, 7)
"""Words of a review's sentence that gives about 3 to 9 tokens, special tokens included."""


@dataclass(frozen=True)
class CorpusText:
    """A text and its domain: `reviews`, `news`, `encyclopaedia`, `code`, `documentation`, `latex`, `languages`,
    `repeated` or `punctuation`."""

    domain: str
    text: str


def corpus(seed=0) -> list[CorpusText]:
    """More than 400 texts that no calibration saw, a quarter of them of 3 to 9 tokens, no text twice.

    The seed chooses among reviews, code and documentation; the written texts are always all of them.

    Raises
    ------
    TextError
        If the reviews aren't installed.
    """
    chosen = [
        *_reviews(random.Random(f"reviews {seed}")),
        *_written(),
        *_code(random.Random(f"code {seed}")),
        *_documentation(random.Random(f"documentation {seed}")),
    ]
    known = _calibration()
    return list({item.text: item for item in chosen if not known & {item.text, _words(item.text)}}.values())


def _reviews(chooser):
    """Single sentences, very short ones and whole reviews."""
    reviews = [review.text for review in text.reviews("evaluation")]
    chooser.shuffle(reviews)
    sentences = [
        sentence
        for review in reviews[30:1200]
        for sentence in text.split_sentences(review)
        if any(letter.isalpha() for letter in sentence)
    ]
    short = [sentence for sentence in sentences if len(sentence.split()) in SHORT_WORDS]
    longer = [sentence for sentence in sentences if len(sentence.split()) > max(SHORT_WORDS)]
    texts = reviews[:30] + chooser.sample(longer, 50) + chooser.sample(sorted(set(short)), 36)
    return [CorpusText("reviews", one) for one in texts]


@lru_cache(maxsize=1)
def _calibration():
    """All that could be calibration text: reviews and each of their sentences; of short ones the words too."""
    reviews = [review.text for review in text.reviews("calibration")]
    sentences = (sentence for review in reviews for sentence in text.split_sentences(review))
    texts = {*reviews, *sentences, *DIVERSE_TEXTS}
    return texts | {_words(one) for one in texts if len(one) < SHORT_LETTERS}


def _words(one):
    """A text's words, each once: "no no" is as good as "No no no"."""
    return frozenset(one.lower().split())


@lru_cache(maxsize=1)
def _written():
    texts, domain = [], None
    for line in WRITTEN.read_text(encoding="utf-8").splitlines():
        if line.startswith(HEADING):
            domain = line.strip("= ")
        elif line:
            texts.append(CorpusText(domain, line))
    return tuple(texts)


def _code(chooser):
    """Single statements, a third of them very short, and whole functions."""
    statements, functions = _library()[:2]
    short = [statement for statement in statements if len(statement) <= 14]
    longer = [statement for statement in statements if len(statement) > 24]
    texts = chooser.sample(short, 26) + chooser.sample(longer, 30) + chooser.sample(functions, 25)
    return [CorpusText("code", one) for one in texts]


def _documentation(chooser):
    return [CorpusText("documentation", one) for one in chooser.sample(_library()[2], 40)]


@lru_cache(maxsize=1)
def _library():
    """Statements of a line, functions of some lines, and paragraphs of documentation, sorted."""
    statements, functions, paragraphs = set(), set(), set()
    for name in LIBRARY:
        source = inspect.getsource(importlib.import_module(name))
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef):
                if node.end_lineno - node.lineno in range(2, 10):
                    functions.add(_segment(source, node))
                paragraphs.update(_paragraphs(ast.get_docstring(node)))
            elif isinstance(node, ast.ClassDef):
                paragraphs.update(_paragraphs(ast.get_docstring(node)))
            elif isinstance(
                node, ast.Assign | ast.Return | ast.Raise | ast.Assert | ast.Import | ast.ImportFrom
            ):
                if node.lineno == node.end_lineno:
                    statements.add(_segment(source, node))
    return sorted(statements), sorted(functions), sorted(paragraphs)


def _segment(source, node):
    lines = source.splitlines()[node.lineno - 1 : node.end_lineno]
    return dedent("\n".join(lines)).strip()


def _paragraphs(docstring):
    """The paragraphs of a docstring that are prose: some words, and no table or example."""
    for paragraph in (docstring or "").split("\n\n"):
        words = paragraph.split()
        if len(words) > 3 and ">>>" not in words and paragraph[0].isalpha():
            yield " ".join(words)
