import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertha.compiler.packing import pack_sentences


@given(st.lists(st.integers(1, 40), min_size=1, max_size=60))
def test_every_sentence_has_rows_of_its_own(lengths):
    packings = pack_sentences(lengths, 40)
    seen = [number for packing in packings for number in packing.sentences]
    assert sorted(seen) == list(range(len(lengths)))
    for packing in packings:
        rows = np.concatenate([np.arange(place.start, place.stop) for place in packing.places])
        assert np.array_equal(rows, np.arange(40 - packing.padding))
        assert [lengths[number] for number in packing.sentences] == list(packing.lengths)
        for place in packing.places:
            assert (packing.ranges[place] == (place.start, place.stop)).all()
        assert not packing.ranges[len(rows) :].any()
    # No two programs could be one: best fit leaves at most one of them half empty.
    assert sum(sum(packing.lengths) * 2 <= 40 for packing in packings) <= 1


def test_best_fit():
    packings = pack_sentences([6, 5, 4, 3, 2], 10)
    assert [packing.lengths for packing in packings] == [(6, 4), (5, 3, 2)]
    assert packings[0].padding == 0
    rows = [np.full((length, 3), number) for number, length in enumerate([6, 5, 4, 3, 2])]
    assert packings[1].gather(rows, 3)[:, 0].tolist() == [1] * 5 + [3] * 3 + [4] * 2


@pytest.mark.parametrize("length", [0, 11])
def test_sentences_that_fit_no_program_are_refused(length):
    with pytest.raises(ValueError, match=f"must have 1 to 10 tokens, but number 1 has {length}"):
        pack_sentences([3, length], 10)
