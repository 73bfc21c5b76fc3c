"""Sentences become runs: as few as possible, of programs no longer than they need."""

import numpy as np
import pytest

from bertha.compiler.predict import Timing
from bertha.models.text import TextError
from bertha.rtl.config import preset
from bertha.sim.packed import MOST_PROGRAMS, TEXTS, model_sentences, plan_runs
from tests.compiler.layers import chained, random_inputs, random_layer

MODEL = chained([random_layer(seed=1, ffn=8, heads=1, head_dim=4)])


def runs_of(lengths, **options):
    embedded16 = [random_inputs(MODEL.layers[0], length, seed=length)[0] for length in lengths]
    return embedded16, *plan_runs(MODEL, preset("tiny4"), embedded16, **options)


def test_static_programs_are_as_long_as_their_sentences():
    embedded16, kind, runs = runs_of([3, 8, 5], tokens=10)
    assert kind == "static"
    assert [(run.program.tokens, run.packing.sentences) for run in runs] == [(8, (1,)), (8, (2, 0))]
    assert runs[0].program is not runs[1].program
    assert all(np.array_equal(run.program.ranges, run.ranges) for run in runs)
    assert np.array_equal(runs[1].x16, np.concatenate([embedded16[2], embedded16[0]]))


def test_one_program_for_all_packings():
    _, kind, runs = runs_of([3, 8, 6], tokens=12, packing="data")
    assert kind == "data"
    assert [run.packing.sentences for run in runs] == [(1, 0), (2,)]
    assert [run.packing.padding for run in runs] == [0, 5]
    assert len({id(run.program) for run in runs}) == 1
    assert runs[0].program.tokens == 11
    assert runs[0].program.ranges is None


def test_many_packings_get_one_program():
    for count, kind in ((MOST_PROGRAMS, "static"), (MOST_PROGRAMS + 1, "data")):
        assert runs_of([5] * count, tokens=5)[1] == kind


def test_predictions_follow_the_memory():
    fast, slow = (
        runs_of([6], tokens=6, timing=Timing(memory=latency))[2][0].predicted for latency in (10, 1000)
    )
    assert slow > 2 * fast


def test_own_sentences_fill_a_program(minilm):
    """The default run has no padding, and sentences short and long."""
    sentences = model_sentences(minilm, 128)
    assert sum(sentence.tokens for sentence in sentences) == 128
    assert [sentence.text for sentence in sentences] == list(TEXTS)
    assert min(sentence.tokens for sentence in sentences) < 8
    assert not any(sentence.truncated for sentence in sentences)
    assert all(sentence.mask.all() for sentence in sentences)


def test_long_sentences_are_truncated(minilm):
    sentences = model_sentences(minilm, 9, ["A word.", "word " * 20])
    assert [(sentence.tokens, sentence.truncated) for sentence in sentences] == [(5, False), (9, True)]


@pytest.mark.parametrize("longest", [1, 2, 7, 128])
def test_random_sentences_of_mixed_lengths(reduced, longest):
    sentences = model_sentences(reduced, longest)
    lengths = [sentence.tokens for sentence in sentences]
    assert sum(lengths) == longest
    assert lengths == sorted(lengths, reverse=True)
    with pytest.raises(TextError, match="from 1 to the model's 512, not 513"):
        model_sentences(reduced, 513)
