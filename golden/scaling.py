"""Choosing scales: fixed-point factors, and how finely each input channel of a linear layer is quantised."""

import numpy as np

__all__ = ["OperandScales", "fixed_point", "operand_scales", "shared_fixed_point", "wide_scale"]

from dataclasses import dataclass

HEADROOM = 1.25
"""Largest int16 value over the largest that calibration saw."""

REACH = 254
"""Largest |value| of a duplicated channel: 127 in each of its two columns."""

SHORTLIST = 24


@dataclass(frozen=True, eq=False)
class OperandScales:
    """Float value of one LSB of each channel of an int8 operand, and which channels are duplicated."""

    scale: np.ndarray
    residue: np.ndarray

    @property
    def duplicates(self):
        """Duplicated channels, ascending."""
        return np.flatnonzero(self.residue)


def fixed_point(factor):
    """uint16 multipliers and shifts (0 to 63), one each, with mult / 2**shift nearest to `factor`.

    Raises
    ------
    ValueError
        If a factor isn't positive or is 2**16 or more.
    """
    factor = np.asarray(factor, np.float64)
    if np.any(factor <= 0) or np.any(factor >= 65535.5):
        raise ValueError(f"factors must be above 0 and below 65536, not {factor.min():g} to {factor.max():g}")
    shift = np.clip(16 - np.frexp(factor)[1], 0, 63)
    mult = np.round(np.ldexp(factor, shift))
    too_large = mult > 65535
    shift, mult = np.where(too_large, shift - 1, shift), np.where(too_large, 32768, mult)
    return mult.astype(np.uint16), shift.astype(np.uint8)


def shared_fixed_point(factor, largest=65535):
    """Integer multipliers up to `largest` in magnitude with one shift for all: (mult int64, shift)."""
    factor = np.asarray(factor, np.float64)
    peak = np.abs(factor).max()
    if not peak:
        return np.zeros(factor.shape, np.int64), 0
    shift = int(np.clip(np.floor(np.log2(largest / peak)), 0, 63))
    mult = np.round(factor * 2.0**shift).astype(np.int64)
    if np.abs(mult).max() > largest:
        shift -= 1
        mult = np.round(factor * 2.0**shift).astype(np.int64)
    return mult, shift


def wide_scale(*values):
    """Scale of an int16 stream that holds all of `values`, with headroom for unseen ones."""
    return max(float(np.abs(value).max()) for value in values) * HEADROOM / 32767


def operand_scales(activations, weight, duplicates):
    """Scales of an int8 operand that share the difficulty between activations and weights.

    A channel's scale may be anything from what its largest value needs upwards: a coarser one costs
    precision of the activation and gives the weights' column (which is multiplied by it) a larger part of
    its row's range. The model of the error that is minimised, for scales s of channels c, outputs o:

        sum over o, c of  W[o,c]**2 s[c]**2 / 12  +  step[o]**2 / 12 * rms(x[c])**2 / s[c]**2,
        step[o] = max over c of |W[o,c]| s[c] / 127

    in the spirit of SmoothQuant (Xiao et al., 2023), with a search instead of one exponent. Duplicated
    channels (outlier channel splitting, Zhao et al., 2019) reach twice as far; they are chosen greedily.

    Parameters
    ----------
    activations : float [tokens, in]
    weight : float64 [out, in]
        Rows may be weighted by how much each output matters.
    duplicates : int
    """
    peak = np.maximum(np.abs(activations).max(axis=0).astype(np.float64), 1e-6)
    power = np.maximum(np.square(activations, dtype=np.float64).mean(axis=0), 1e-18)
    column_power = np.square(weight).sum(axis=0)
    column_peak = np.maximum(np.abs(weight).max(axis=0), 1e-9)
    residue = np.zeros(len(peak), dtype=bool)

    def solve(flags):
        finest = peak / np.where(flags, REACH, 127)
        best = (np.inf, finest)
        for level in np.append(0, np.geomspace(0.02, 1, 16)):
            # Raise the scale of channels whose weights stay far below their rows' range.
            scale = np.maximum(finest, level * np.median(finest * column_peak) / column_peak)
            steps = np.square(np.abs(weight * scale).max(axis=1) / 127).sum()
            error = (column_power * scale**2).sum() + steps * (power / scale**2).sum()
            if error < best[0]:
                best = (error, scale)
        return best

    _, scale = solve(residue)
    for _ in range(min(duplicates, len(peak))):
        promise = np.where(residue, -1, column_power * scale**2)
        shortlist = np.argsort(-promise)[:SHORTLIST]
        shortlist = np.union1d(shortlist, np.argsort(-np.where(residue, -1, column_peak * scale))[:8])
        trials = []
        for channel in shortlist[~residue[shortlist]]:
            flags = residue.copy()
            flags[channel] = True
            trials.append((*solve(flags), flags))
        _, scale, residue = min(trials, key=lambda trial: trial[0])
    return OperandScales(scale, residue)
