"""Piecewise tables of activations."""

import numpy as np

__all__ = ["activation_table"]

LARGEST_SLOPE = 32767


def activation_table(function, input_scale, output_scale, offset=0.0) -> tuple[np.ndarray, np.ndarray]:
    """Base and slope (int16, 256 each) of function(x) - offset for `bertha.golden.units.piecewise`.

    Each segment is the least-squares line through its 256 points, as in `bertha.golden.units.gelu_table`.

    Parameters
    ----------
    function : callable
        Of an array, elementwise.
    input_scale, output_scale : float
        LSB of the int16 pre-activation and of the int16 result.
    offset : float

    Raises
    ------
    ValueError
        If a slope doesn't fit 16 bits, because the output is too fine for its input.
    """
    points = np.arange(-32768, 32768) * float(input_scale)
    exact = (np.asarray(function(points), np.float64).reshape(256, 256) - offset) / output_scale
    fraction = np.arange(256) - 127.5
    slope = np.round(exact @ fraction / (fraction @ fraction) * 256)
    if np.abs(slope).max() > LARGEST_SLOPE:
        raise ValueError(
            f"an activation segment's slope must fit 16 bits, not {int(np.abs(slope).max())}: the output scale "
            f"{output_scale:g} is too fine for the input scale {input_scale:g}"
        )
    base = np.clip(np.round(exact.mean(axis=1) - slope * 127.5 / 256), -32768, 32767)
    return base.astype(np.int16), slope.astype(np.int16)
