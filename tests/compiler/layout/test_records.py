"""Records as bytes."""

import numpy as np
import pytest

from bertha.compiler.layout.records import range_records, unpack_records
from bertha.rtl.isa import RangeRecord


def test_ranges_fill_whole_panels():
    ranges = np.array([[0, 5], [3, 65535], [0, 0], [7, 2], [1, 6]])
    found = unpack_records(RangeRecord, range_records(ranges, 5, 4))
    assert found["first"].tolist() == [0, 3, 0, 7, 1, 0, 0, 0]
    assert found["last"].tolist() == [5, 65535, 0, 2, 6, 0, 0, 0]


def test_ranges_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"the row ranges must have the shape \[3, 2\], not \[2, 2\]"):
        range_records(np.zeros((2, 2)), 3, 4)
    with pytest.raises(ValueError, match="last of a RangeRecord must fit"):
        range_records([[0, 65536]], 1, 4)
