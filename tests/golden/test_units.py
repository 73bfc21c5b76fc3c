"""Units against exact arithmetic on Python's integers, and against float with the stated error."""

from fractions import Fraction
from math import floor, isqrt

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bertha.golden import units
from bertha.quantize.unit_errors import unit_errors

INT16 = st.integers(-32768, 32767)
PROPERTY = settings(max_examples=100, deadline=None, derandomize=True)

LARGEST_ERRORS = {
    "requantise": 0.75,
    "softmax": 0.03,
    "softmax and P·V": 4.0,
    "LayerNorm, deviation 2000": 0.0003,
    "LayerNorm, deviation 20": 0.0003,
    "GELU, 256 segments of 0.25": 0.0046,
}


def exact_round(value, shift):
    return floor(Fraction(value, 2**shift) + Fraction(1, 2)) if shift else value


def clip(value, bits):
    return max(-(1 << (bits - 1)), min((1 << (bits - 1)) - 1, value))


@pytest.mark.parametrize("error", unit_errors(), ids=lambda error: error.unit)
def test_error_against_float_is_as_stated(error):
    assert 0 < error.largest <= LARGEST_ERRORS[error.unit]


@PROPERTY
@given(st.integers(-(2**48), 2**48), st.integers(0, 63))
def test_round_half_up(value, shift):
    assert units.round_half_up(value, shift) == exact_round(value, shift)


def test_round_half_up_goes_towards_plus_infinity_at_one_half():
    assert units.round_half_up([-3, -1, 1, 3], 1).tolist() == [-1, 0, 1, 2]


@PROPERTY
@given(st.integers(-(2**31), 2**31 - 1), st.integers(0, 65535), st.integers(0, 63))
def test_requantise(accumulator, mult, shift):
    assert units.requantise(accumulator, mult, shift) == clip(exact_round(accumulator * mult, shift), 16)


@PROPERTY
@given(INT16)
def test_operand_and_residue_add_up_where_they_can(wide):
    total = int(units.saturate(wide, 8) + units.residue(wide))
    assert total == max(-256, min(254, wide))


def test_planes_are_signed_bytes_that_make_up_the_value():
    values = np.arange(-32768, 32768)
    high, low = units.split_wide(values)
    for plane in (high, low):
        assert (plane.min(), plane.max()) == (-128, 127)
    assert np.array_equal(256 * high + low, np.minimum(values, 32639))


@PROPERTY
@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1))
def test_combine_wide(high, low):
    total = 16 * high + exact_round(low, 4)
    assert units.combine_wide(high, low) == (total + 2**31) % 2**32 - 2**31


def test_products_of_planes_combine_to_those_of_the_value():
    rng = np.random.default_rng(20261201)
    values, weights = rng.integers(-32768, 32640, (5, 96)), rng.integers(-127, 128, (96, 7))
    high, low = units.split_wide(values)
    exact = values @ weights
    assert np.array_equal(units.combine_wide(high @ weights, low @ weights), exact + 8 >> 4)


@PROPERTY
@given(INT16, st.integers(0, 255), INT16, INT16)
def test_piecewise(value, segment, base, slope):
    bases, slopes = np.full(256, 7), np.full(256, 9)
    bases[segment], slopes[segment] = base, slope
    chosen = (value + 32768) // 256
    expected = clip(int(bases[chosen]) + exact_round(int(slopes[chosen]) * (value % 256), 8), 16)
    assert units.piecewise(value, bases, slopes) == expected


def test_gelu_table_is_accurate_with_an_offset():
    base, slope = units.gelu_table(0.001, 0.0015, 1.2)
    values = np.arange(-32768, 32768, 5)
    exact = torch.nn.functional.gelu(torch.from_numpy(values * 0.001)).numpy() - 1.2
    assert np.abs(units.piecewise(values, base, slope) * 0.0015 - exact).max() < 0.006


def test_gelu_table_refuses_a_slope_that_does_not_fit():
    with pytest.raises(ValueError, match="must fit 16 bits"):
        units.gelu_table(1, 0.001)


def test_exp2_table():
    table = units.exp2_table()
    assert table[0] == 65280 and table[63] == round(65280 * 2 ** (-63 / 64)) and len(table) == 64


def exact_softmax(scores, table=None, maximum=None):
    table = table or [round(65280 * 2 ** (-f / 64)) for f in range(64)]
    maximum = max(scores) if maximum is None else maximum
    probabilities = []
    for score in scores:
        whole, fraction = divmod((maximum - score) % 65536, 64)
        exact = min(exact_round(table[fraction], 8 + whole), 255)
        probabilities.append(0 if score == -32768 else exact)
    total = sum(probabilities)
    if not total:
        return probabilities, 0, 0
    exponent = 0
    while total << exponent < 1 << 19:
        exponent += 1
    return probabilities, (2**35 - 1) // (total << exponent), 35 - exponent


@PROPERTY
@given(st.lists(st.one_of(INT16, st.integers(-600, 0)), min_size=1, max_size=40))
def test_softmax(scores):
    probabilities, mult, shift = units.softmax(scores)
    assert (probabilities.tolist(), int(mult), int(shift)) == exact_softmax(scores)


@PROPERTY
@given(
    st.lists(st.one_of(INT16, st.integers(-600, 0), st.just(-32768)), min_size=1, max_size=40),
    st.lists(st.one_of(st.integers(0, 65535), st.integers(65408, 65535)), min_size=64, max_size=64),
    st.one_of(INT16, st.integers(-600, 0)),
)
def test_softmax_with_any_table_and_maximum(scores, table, maximum):
    probabilities, mult, shift = units.softmax(scores, table, maximum)
    assert (probabilities.tolist(), int(mult), int(shift)) == exact_softmax(scores, table, maximum)


def exact_hard_softmax(scores, table, maximum, kept, whole_sum):
    """Key by key: the best of those that are left is kept, the first one of equals."""
    probabilities, _, _ = exact_softmax(scores, table, maximum)
    left = {key for key, score in enumerate(scores) if score != -32768}
    chosen = set()
    while left and len(chosen) < kept:
        best = min(left, key=lambda key: ((maximum - scores[key]) % 65536, key))
        chosen.add(best)
        left.remove(best)
    hard = [probability if key in chosen else 0 for key, probability in enumerate(probabilities)]
    return hard, sum(probabilities if whole_sum else hard)


@PROPERTY
@given(
    st.lists(st.one_of(INT16, st.integers(-9, 0), st.just(-32768)), min_size=1, max_size=40),
    st.one_of(INT16, st.just(0)),
    st.integers(1, 45),
    st.booleans(),
)
def test_hard_softmax(scores, maximum, kept, whole_sum):
    probabilities, mult, shift = units.softmax(scores, maximum=maximum, kept=kept, whole_sum=whole_sum)
    expected, total = exact_hard_softmax(scores, None, maximum, kept, whole_sum)
    assert probabilities.tolist() == expected
    assert (mult, shift) == units.reciprocal(total)


def test_rows_keep_keys_of_their_own():
    scores = np.array([[[0, -5, -5, -5], [-5, -5, 0, -32768]], [[-64, 0, -1, -2], [-32768] * 4]])
    kept = units.softmax(scores, kept=2)[0] > 0
    assert kept.tolist() == [
        [[True, True, False, False], [True, False, True, False]],
        [[False, True, True, False], [False] * 4],
    ]


def test_softmax_clamps_at_255():
    for entry in (65407, 65408, 65535):
        assert units.softmax([0], [entry] * 64)[0].tolist() == [255]


@pytest.mark.parametrize("lowest, expected", [(-32767, 255), (-32768, 0)])
def test_softmax_of_the_lowest_score_and_of_a_masked_one(lowest, expected):
    probabilities, mult, shift = units.softmax([lowest, -32768, -32768])
    assert probabilities.tolist() == [expected, 0, 0]
    assert (mult == 0) == (shift == 0) == (expected == 0)


def test_softmax_of_the_longest_row_of_equal_scores():
    probabilities, mult, shift = units.softmax(np.zeros(4096))
    assert probabilities.sum() == 4096 * 255
    assert units.requantise(probabilities.sum(), mult, shift - 8) == 256


@PROPERTY
@given(st.integers(1, 2**20 - 1))
def test_reciprocal(total):
    mult, shift = (int(part) for part in units.reciprocal(total))
    assert 2**15 <= mult < 2**16
    assert abs(Fraction(mult, 2**shift) * total - 1) < Fraction(1, 2**15)


def test_reciprocal_of_zero_is_zero():
    assert [int(part) for part in units.reciprocal(0)] == [0, 0]


def exact_layernorm(values, gamma, beta, gamma_shift, epsilon, row_moments=None):
    count = len(values)
    total, squares = row_moments or (sum(values), sum(value * value for value in values))
    variance = (count * squares - total * total + epsilon) % 2**56 or 1
    exponent = 0
    while variance << 2 * exponent < 1 << 54:
        exponent += 1
    inverse = (2**35 - 1) // isqrt((variance << 2 * exponent) >> 16)
    result = []
    for value in values:
        normal = clip(exact_round((count * value - total) * inverse, 31 - exponent), 18)
        result.append(clip(exact_round(normal * gamma, gamma_shift) + beta, 16))
    return result


@PROPERTY
@given(
    st.one_of(
        st.lists(INT16, min_size=1, max_size=40),
        st.lists(st.integers(-3, 3), min_size=1, max_size=40),
        st.lists(st.sampled_from([-32768, 32767]), min_size=1, max_size=40),
    ),
    INT16,
    INT16,
    st.integers(0, 20),
    st.sampled_from([0, 1, 1000, 2**32 - 1]),
)
def test_layernorm(values, gamma, beta, gamma_shift, epsilon):
    result = units.layernorm(values, gamma, beta, gamma_shift, epsilon)
    assert result.tolist() == exact_layernorm(values, gamma, beta, gamma_shift, epsilon)


@PROPERTY
@given(
    st.lists(INT16, min_size=2, max_size=40),
    st.one_of(st.integers(-(2**27), 2**27 - 1), st.just(-(2**27)), st.integers(-9, 9)),
    st.one_of(st.integers(0, 2**43 - 1), st.just(2**43 - 1), st.integers(0, 9)),
    INT16,
    st.integers(0, 63),
    st.sampled_from([0, 1, 2**32 - 1]),
)
def test_layernorm_with_the_moments_of_other_rows(values, total, squares, gamma, gamma_shift, epsilon):
    row_moments = np.array(total), np.array(squares)
    result = units.layernorm(values, gamma, 3, gamma_shift, epsilon, row_moments)
    assert result.tolist() == exact_layernorm(values, gamma, 3, gamma_shift, epsilon, (total, squares))


def test_layernorm_at_its_widest():
    values = [32767] * 2048 + [-32768] * 2048
    assert units.layernorm(values, 4096, 5, 10, 0).tolist() == exact_layernorm(values, 4096, 5, 10, 0)


def test_layernorm_of_equal_values_is_beta():
    assert units.layernorm([77] * 12, 1000, -5, 8, 0).tolist() == [-5] * 12
