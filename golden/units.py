"""The integer arithmetic of each unit, to the bit of `docs/architecture.md`.

Everything works on NumPy int64 arrays in matrix form ([tokens, features] or [..., rows, columns]).
Nothing here comes from `rtl/`: this is the independent model that the hardware is compared with.
"""

import numpy as np
import torch

__all__ = [
    "COMBINED_SHIFT",
    "LOWEST_SCORE",
    "MASKED_SCORE",
    "NORMALISED_BITS",
    "SUM_BITS",
    "SQUARES_BITS",
    "combine_wide",
    "exp2_table",
    "gelu_table",
    "layernorm",
    "moments",
    "normalise",
    "piecewise",
    "quantise",
    "reciprocal",
    "requantise",
    "residue",
    "round_half_up",
    "saturate",
    "softmax",
    "split_wide",
]

MASKED_SCORE = -32768
"""Score of a key that is masked, and of no other: its probability is exactly 0."""

LOWEST_SCORE = MASKED_SCORE + 1
"""Where the scores of other keys saturate."""

SUM_BITS, SQUARES_BITS = 28, 43
"""What a row slot keeps of a row's sum (signed) and of its sum of squares."""

NORMALISED_BITS = 12
"""Fractional bits of a normalised LayerNorm input, before gamma."""

WIDE_MOST = 32639
"""The largest value that two signed bytes hold, 127 * 256 + 127: larger ones are limited to it."""

COMBINED_SHIFT = 4
"""Bits of a wide operand's sum of products that are rounded off, so that 32 bits hold what is left."""

SCORE_FRACTION_BITS = 6
SEGMENT_BITS = 8


def round_half_up(value, shift) -> np.ndarray | np.int64:
    """floor(value / 2**shift + 1/2); `value` itself for shift 0. Shifts may be an array, 0 to 63."""
    value = np.asarray(value, dtype=np.int64)
    shift = np.asarray(shift, dtype=np.int64)
    half = (np.int64(1) << shift) >> 1
    if np.any(shift == 63):  # 1 << 63 is negative and its half would be too
        half = np.where(shift == 63, np.int64(1) << 62, half)
    return (value + half) >> shift


def saturate(value, bits) -> np.ndarray | np.int64:
    """`value` limited to a signed number of `bits` bits."""
    return np.clip(np.asarray(value, dtype=np.int64), -(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def requantise(accumulator, mult, shift) -> np.ndarray | np.int64:
    """int32 accumulator to int16: sat16(rhu(accumulator * mult, shift))."""
    return saturate(round_half_up(np.asarray(accumulator, np.int64) * np.asarray(mult, np.int64), shift), 16)


def residue(wide) -> np.ndarray | np.int64:
    """What int8 saturation cuts off: sat8(wide - sat8(wide))."""
    wide = np.asarray(wide, np.int64)
    return saturate(wide - saturate(wide, 8), 8)


def split_wide(wide) -> tuple[np.ndarray, np.ndarray]:
    """int16 as a high and a low plane of signed bytes (as int64): min(wide, 32639) = 256 * high + low."""
    limited = np.minimum(np.asarray(wide, np.int64), WIDE_MOST)
    high = (limited + 128) >> 8
    return high, limited - 256 * high


def combine_wide(high_sum, low_sum) -> np.ndarray | np.int64:
    """Accumulator of a wide operand, from its planes' sums of products: (256 * high_sum + low_sum) / 16.

    Rounded half up and wrapped to int32. Its LSB is 16 times weight scale times operand scale.
    """
    shifted = np.asarray(high_sum, np.int64) << 8 - COMBINED_SHIFT
    total = shifted + round_half_up(low_sum, COMBINED_SHIFT)
    return ((total + (1 << 31)) & ((1 << 32) - 1)) - (1 << 31)


def piecewise(value, base, slope) -> np.ndarray | np.int64:
    """int16 through 256 linear segments: sat16(base[s] + rhu(slope[s] * f, 8)).

    s is the high byte of value + 32768, f its low byte.
    """
    value = np.asarray(value, np.int64)
    segment, fraction = (value + 32768) >> SEGMENT_BITS, value & 255
    base, slope = np.asarray(base, np.int64)[segment], np.asarray(slope, np.int64)[segment]
    return saturate(base + round_half_up(slope * fraction, SEGMENT_BITS), 16)


def exp2_table() -> np.ndarray:
    """The 64 entries of 2**-(f/64) in units of 1/65280 (255 * 256), unsigned 16 bits."""
    return np.round(65280 * 2.0 ** (-np.arange(64) / 64)).astype(np.int64)


def reciprocal(total) -> tuple[np.ndarray, np.ndarray]:
    """Multiplier and shift that mean 1/total: acc / total = rhu(acc * mult, shift).

    `total` is from 0 to 2**20 - 1; 0 gives a factor of zero.
    """
    total = np.asarray(total, np.int64)
    exponent = 20 - np.frexp(np.maximum(total, 1).astype(np.float64))[1].astype(np.int64)
    mult = _divide(np.maximum(total, 1) << exponent)
    return np.where(total == 0, 0, mult), np.where(total == 0, 0, 35 - exponent)


def softmax(
    scores, table=None, maximum=None, *, kept=0, whole_sum=False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Unnormalised probabilities of int16 scores (1/64 of log2) over the last axis.

    A row of masked scores only has no probability and a factor of 0.

    Parameters
    ----------
    table : 64 unsigned 16-bit entries, by default `exp2_table()`
    maximum : int16, one a row; by default the rows' own. Where it is below a score, their distance
        wraps to 16 bits.
    kept : int
        So many keys of each row keep their probability, the others get 0: those nearest to the maximum, of equal ones
        those that come first. 0: all.
    whole_sum : bool
        The row factor is of all keys' probabilities, not of the kept ones' only.

    Returns
    -------
    probabilities : unsigned 8 bits, as int64; the row's maximum gives 255
    mult, shift : the row factor, `reciprocal` of the row's sum
    """
    scores = np.asarray(scores, np.int64)
    table = exp2_table() if table is None else np.asarray(table, np.int64)
    maximum = scores.max(axis=-1) if maximum is None else np.asarray(maximum, np.int64)
    distance = (maximum[..., None] - scores) & 0xFFFF
    whole, fraction = distance >> SCORE_FRACTION_BITS, distance & 63
    exact = np.minimum(round_half_up(table[fraction], 8 + np.minimum(whole, 9)), 255)
    masked = scores == MASKED_SCORE
    probabilities = np.where(masked, 0, exact)
    total = probabilities.sum(axis=-1)
    if kept:
        order = np.argsort(np.where(masked, 1 << 16, distance), axis=-1, kind="stable")
        dropped = np.ones(scores.shape, dtype=bool)
        np.put_along_axis(dropped, order[..., :kept], False, axis=-1)
        probabilities = np.where(dropped, 0, probabilities)
        total = total if whole_sum else probabilities.sum(axis=-1)
    mult, shift = reciprocal(total)
    return probabilities, mult, shift


def moments(values) -> tuple[np.ndarray | np.int64, np.ndarray | np.int64]:
    """Sum and sum of squares of int16 rows (last axis)."""
    values = np.asarray(values, np.int64)
    return values.sum(axis=-1), (values * values).sum(axis=-1)


def normalise(values, epsilon, row_moments=None) -> np.ndarray:
    """(x - mean) / sigma of int16 rows (last axis) with 12 fractional bits, signed 18 bits.

    `epsilon` is added to n**2 * variance. Rows have at most 4096 words. `row_moments` are `moments(values)`
    unless given; with those of other rows the variance may be negative, and wraps to 56 bits.
    """
    values = np.asarray(values, np.int64)
    count = values.shape[-1]
    total, squares = (part[..., None] for part in row_moments or moments(values))
    variance = np.maximum((count * squares - total * total + np.int64(epsilon)) & ((1 << 56) - 1), 1)
    bits = _bit_length(variance)
    exponent = (56 - bits) // 2
    # The argument has at most 40 bits, so the float root is far from the next integer.
    root = np.floor(np.sqrt(((variance << 2 * exponent) >> 16).astype(np.float64))).astype(np.int64)
    return saturate(round_half_up((count * values - total) * _divide(root), 31 - exponent), 18)


def layernorm(values, gamma, beta, gamma_shift, epsilon, row_moments=None) -> np.ndarray:
    """int16 LayerNorm over the last axis: sat16(rhu(z * gamma, gamma_shift) + beta)."""
    scaled = normalise(values, epsilon, row_moments) * np.asarray(gamma, np.int64)
    return saturate(round_half_up(scaled, gamma_shift) + np.asarray(beta, np.int64), 16)


def quantise(values, mult, shift) -> np.ndarray | np.int64:
    """int16 to the wide value that int8 and residue come from: sat16(rhu(x * mult, shift))."""
    return saturate(round_half_up(np.asarray(values, np.int64) * np.asarray(mult, np.int64), shift), 16)


def gelu_table(input_scale, output_scale, offset=0.0) -> tuple[np.ndarray, np.ndarray]:
    """Base and slope (int16, 256 each) of GELU(x) - offset for `piecewise`.

    `input_scale` and `output_scale` are the float values of one LSB of the int16 pre-activation and of
    the result. Each segment is the least-squares line through its 256 points.

    Raises
    ------
    ValueError
        If a slope doesn't fit 16 bits, because the output is too fine for its input.
    """
    points = torch.arange(-32768, 32768, dtype=torch.float64) * input_scale
    exact = torch.nn.functional.gelu(points).numpy().reshape(256, 256)
    exact = (exact - offset) / output_scale
    fraction = np.arange(256) - 127.5
    slope = np.round(exact @ fraction / (fraction @ fraction) * 256)
    if np.abs(slope).max() > 32767:
        raise ValueError(
            f"a GELU segment's slope must fit 16 bits, not {int(np.abs(slope).max())}: the output scale "
            f"{output_scale:g} is too fine for the input scale {input_scale:g}"
        )
    base = np.clip(np.round(exact.mean(axis=1) - slope * 127.5 / 256), -32768, 32767)
    return base.astype(np.int16), slope.astype(np.int16)


def _divide(divisor):
    """The 16-bit reciprocal of 20-bit numbers from 2**19 on, in units of 2**-35."""
    return ((1 << 35) - 1) // divisor


def _bit_length(value):
    """Bits of positive int64 values; exact, unlike a float logarithm."""
    bits = np.zeros_like(value)
    for step in (32, 16, 8, 4, 2, 1):
        wide = value >> step != 0
        bits += np.where(wide, step, 0)
        value = np.where(wide, value >> step, value)
    return bits + 1
