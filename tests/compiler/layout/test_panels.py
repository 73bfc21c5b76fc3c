import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertha.compiler.layout.panels import even, pack, panel_count, unpack

DTYPES = ["int8", "uint8", "int16"]


@settings(deadline=None, max_examples=60)
@given(
    rows=st.integers(1, 40),
    words=st.integers(1, 40),
    n=st.sampled_from([4, 8, 16, 32]),
    dtype=st.sampled_from(DTYPES),
    seed=st.integers(0, 1000),
)
def test_unpack_undoes_pack(rows, words, n, dtype, seed):
    limits = np.iinfo(dtype)
    matrix = np.random.default_rng(seed).integers(limits.min, limits.max + 1, (rows, words))
    panels = pack(matrix, n, dtype=dtype)
    assert panels.shape == (panel_count(rows, n), even(words) * n * np.dtype(dtype).itemsize)
    assert np.array_equal(unpack(panels, n, rows=rows, words=words, dtype=dtype), matrix)


def test_words_hold_one_element_of_each_row():
    matrix = np.arange(6 * 3).reshape(6, 3)
    panels = pack(matrix, 4)
    assert panels[0].tolist() == [0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11, 0, 0, 0, 0]
    assert panels[1].tolist() == [12, 15, 0, 0, 13, 16, 0, 0, 14, 17, 0, 0, 0, 0, 0, 0]


def test_wide_words_are_little_endian():
    assert pack([[0x0102, 0]], 4, dtype="int16")[0][:4].tolist() == [2, 1, 0, 0]


@pytest.mark.parametrize("matrix", [np.zeros(3), np.zeros((0, 3)), np.zeros((3, 0))])
def test_only_matrices_are_packed(matrix):
    with pytest.raises(ValueError, match="must have rows and words"):
        pack(matrix, 4)


def test_values_must_fit():
    with pytest.raises(ValueError, match="from -128 to 127, not 0 to 128"):
        pack([[0, 128]], 4)


def test_sizes_must_match():
    with pytest.raises(ValueError, match="must have 16 bytes, not 8"):
        unpack(np.zeros(8, np.uint8), 4, rows=3, words=4)
