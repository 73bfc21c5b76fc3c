"""Choosing scales: fixed-point factors, and how finely each input channel of a linear layer is quantised."""

from dataclasses import dataclass

import numpy as np

__all__ = [
    "HiddenScales",
    "OperandScales",
    "fixed_point",
    "hidden_scales",
    "norm_input_scale",
    "operand_scales",
    "shared_fixed_point",
    "wide_hidden_scales",
    "wide_operand_scales",
    "wide_scale",
    "worthwhile_peak",
]

HEADROOM = 1.25
"""Largest int16 value over the largest that calibration saw."""

WIDE_REACH = 32639
"""Largest value that two signed bytes hold."""

REACH = 254
"""Largest |value| of a duplicated channel: 127 in each of its two columns."""

EXPONENTS = np.linspace(0, 1, 6)

LEVELS = np.append(0, np.geomspace(0.02, 1, 16))
SHORTLIST = 16

CLIPS = (1, 0.9, 0.8, 0.7, 0.6, 0.5)
CLIPPED = 3
"""How much more a squared error of a saturated value counts: it hits few sentences, but those hard."""

STEPS = 4
"""In about as many steps are many duplicates chosen."""

SPREAD = 2.0**10
"""How much coarser than the finest a wide operand's channel may be: multipliers keep six bits at least."""

UNSEEN = 1.1
"""Largest value an int8 operand represents, over the largest that calibration saw."""

GELU_MINIMUM = -0.17

LARGEST_POST_SHIFT = 15


@dataclass(frozen=True, eq=False)
class HiddenScales:
    """How GELU's result is kept: (GELU(x) - offset) as int16 of LSB `fine`, then >> post_shift a neuron."""

    fine: float
    offset: float
    post_shift: np.ndarray
    residue: np.ndarray

    @property
    def operand(self) -> "OperandScales":
        """The scales of the int8 operand; its zero is `offset`, which the next bias makes up for."""
        return OperandScales(self.fine * 2.0**self.post_shift, self.residue)


@dataclass(frozen=True, eq=False)
class OperandScales:
    """Float value of one LSB of each channel of an operand, which channels are duplicated, and if it is wide."""

    scale: np.ndarray
    residue: np.ndarray
    wide: bool = False

    @property
    def duplicates(self) -> np.ndarray:
        """Duplicated channels, ascending."""
        return np.flatnonzero(self.residue)


def fixed_point(factor) -> tuple[np.ndarray, np.ndarray]:
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


def shared_fixed_point(factor, largest=65535) -> tuple[np.ndarray, int]:
    """Integer multipliers up to `largest` in magnitude with one shift for all: (mult int64, shift).

    Factors beyond `largest` become `largest`.
    """
    factor = np.asarray(factor, np.float64)
    peak = np.abs(factor).max()
    if not peak:
        return np.zeros(factor.shape, np.int64), 0
    shift = int(np.clip(np.floor(np.log2(largest) - np.log2(peak)), 0, 63))
    if shift and np.round(peak * 2.0**shift) > largest:
        shift -= 1
    return np.clip(np.round(factor * 2.0**shift), -largest, largest).astype(np.int64), shift


def wide_scale(*values) -> float:
    """Scale of an int16 stream that holds all of `values`, with headroom for unseen ones; any if all are 0."""
    peak = max(float(np.abs(value).max()) for value in values)
    return (peak or 1.0) * HEADROOM / 32767


def worthwhile_peak(values) -> np.ndarray:
    """Largest value that int8 should hold, by channel: little is cut off where that makes all else more precise.

    Minimises rounding error plus `CLIPPED` times the error of what calibration text has beyond it.
    """
    magnitude = np.abs(values)
    peak = magnitude.max(axis=0).astype(np.float64) * UNSEEN
    best, error = peak, np.full(len(peak), np.inf)
    for factor in CLIPS:
        cut = np.square(np.maximum(magnitude - (factor * peak).astype(np.float32), 0)).mean(axis=0)
        found = CLIPPED * cut + np.square(factor * peak / 127) / 12
        best, error = np.where(found < error, factor * peak, best), np.minimum(found, error)
    return best


def norm_input_scale(epsilon, width, *values) -> float:
    """`wide_scale` of a stream that a LayerNorm of `width` features reads, whose epsilon must fit 32 bits."""
    return max(wide_scale(*values), width * np.sqrt(epsilon) / 65535)


def operand_scales(activations, weight, duplicates, *, finest=0.0) -> OperandScales:
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
    finest : float
        LSB of the int16 stream that the operand is made of: nothing finer is in it.

    Channels that don't vary, and those whose weights are zero, say nothing about the others' scales, and are
    never duplicated.
    """
    activations = np.asarray(activations)
    low, high = (np.asarray(end, np.float64) for end in (activations.min(axis=0), activations.max(axis=0)))
    peak = np.maximum(np.abs(low), np.abs(high)) * UNSEEN
    living = (high - low > finest) & weight.any(axis=0)
    scale = np.full(len(peak), np.inf)
    residue = np.zeros(len(peak), dtype=bool)
    if living.any():
        scale[living], residue[living] = _living_scales(
            activations[:, living], weight[:, living], peak[living], duplicates, finest
        )
    usual = np.median(scale[living]) if living.any() else finest
    scale[~living] = np.maximum(peak[~living] / 127, usual)
    return OperandScales(np.where(scale > 0, scale, 1.0), residue)


def _living_scales(activations, weight, peak, duplicates, finest):
    """Scale and residue flag of each channel, see `operand_scales`."""
    power = np.maximum(np.square(activations, dtype=np.float64).mean(axis=0), 1e-18)
    magnitude = np.abs(weight)
    column_power = np.square(weight).sum(axis=0)
    column_peak = magnitude.max(axis=0)

    def solve(residue, levels):
        exact = np.maximum(peak / np.where(residue, REACH, 127), finest)
        best = (np.inf, exact, levels[0])
        for level in levels:
            # Raise the scale of channels whose weights stay far below their rows' range.
            scale = np.maximum(exact, level * np.median(exact * column_peak) / column_peak)
            steps = np.square((magnitude * scale).max(axis=1) / 127).sum()
            error = (column_power * scale**2).sum() + steps * (power / scale**2).sum()
            if error < best[0]:
                best = (error, scale, level)
        return best

    residue = np.zeros(len(peak), dtype=bool)
    _, scale, level = solve(residue, LEVELS)
    remaining = min(duplicates, len(peak))
    together = 1 + remaining // STEPS
    while remaining:
        by_activation = np.argsort(np.where(residue, 0, -column_power * scale**2))
        by_weight = np.argsort(np.where(residue, 0, -column_peak * scale))
        shortlist = np.union1d(by_activation[:SHORTLIST], by_weight[:SHORTLIST])
        trials = [solve(_with(residue, channel), [level])[0] for channel in shortlist]
        trials = np.where(residue[shortlist], np.inf, trials)
        count = min(together, remaining, np.count_nonzero(np.isfinite(trials)))
        residue = _with(residue, shortlist[np.argsort(trials, kind="stable")[:count]])
        remaining -= count
        _, scale, level = solve(residue, LEVELS)
    return scale, residue


def wide_operand_scales(activations, weight, *, finest=0.0) -> OperandScales:
    """Scales of a wide operand, by the error model of `operand_scales` with 16 bits for activations.

    Activations then have precision to spare, which goes to the weights: channels' scales are
    rms(x)**a / max(|W|)**b with the best a and b of a grid.
    """
    activations = np.asarray(activations)
    low, high = (np.asarray(end, np.float64) for end in (activations.min(axis=0), activations.max(axis=0)))
    peak = np.maximum(np.maximum(np.abs(low), np.abs(high)) * HEADROOM, 1e-12)
    living = (high - low > finest) & weight.any(axis=0)
    if not living.any():
        return OperandScales(np.maximum(peak / WIDE_REACH, finest) + 1e-30, np.zeros(len(peak), dtype=bool))
    scale = np.full(len(peak), np.inf)
    exact = np.maximum(peak[living] / WIDE_REACH, finest)
    power = np.maximum(np.square(activations[:, living], dtype=np.float64).mean(axis=0), 1e-18)
    scale[living] = _balanced(np.abs(weight[:, living]), power, exact)
    scale[~living] = np.maximum(peak[~living] / WIDE_REACH, np.median(scale[living]))
    return OperandScales(scale, np.zeros(len(peak), dtype=bool))


def _balanced(magnitude, power, exact):
    """Scales of a wide operand's channels, none finer than `exact`."""
    column_power, column_peak = np.square(magnitude).sum(axis=0), magnitude.max(axis=0)
    best = np.inf, exact
    for a in EXPONENTS:
        for b in EXPONENTS:
            shape = power ** (a / 2) / column_peak**b
            shape = np.maximum(shape, shape.max() / SPREAD)
            scale = shape * (exact / shape).max()
            steps = np.square((magnitude * scale).max(axis=1) / 127).sum()
            error = (column_power * scale**2).sum() + steps * (power / scale**2).sum()
            if error < best[0]:
                best = error, scale
    return best[1]


def wide_hidden_scales(activated, weight, *, in_scale=0.0, dead=None) -> HiddenScales:
    """`hidden_scales` of a wide operand: no offset, and a neuron's power of two gives its weights precision."""
    dead = np.zeros(activated.shape[1], dtype=bool) if dead is None else dead
    largest = np.abs(activated).max(axis=0).astype(np.float64)
    fine = max(wide_scale(largest[~dead]) if (~dead).any() else 1.0, in_scale / 50)
    shift = np.where(dead, LARGEST_POST_SHIFT, 0)
    living = ~dead & weight.any(axis=0)
    if living.any():
        power = np.maximum(np.square(activated[:, living], dtype=np.float64).mean(axis=0), 1e-18)
        scale = _balanced(np.abs(weight[:, living]), power, np.full(np.count_nonzero(living), fine))
        shift[living] = np.clip(np.round(np.log2(scale / fine)), 0, LARGEST_POST_SHIFT)
    return HiddenScales(fine, 0.0, shift.astype(np.int64), np.zeros(len(shift), dtype=bool))


def hidden_scales(
    activated, weight, duplicates, *, in_scale=0.0, dead=None, minimum=GELU_MINIMUM
) -> HiddenScales:
    """How finely GELU's result is kept.

    Neurons can only differ by powers of two. GELU stays above -0.17, so that half of int8 would lie idle:
    the table subtracts an offset, the same for all neurons, and the next layer's bias adds it back. Fine
    scale and offset are searched together; a neuron's rounding error counts with its weights' power.

    Parameters
    ----------
    activated : float [tokens, ffn]
    weight : float64 [out, ffn]
        Of the linear layer that follows.
    duplicates : int
    in_scale : float
        LSB of the int16 pre-activation: the table's slopes bound how much finer its result may be.
    dead : bool [ffn], optional
        Neurons that are always the same: int8 makes them zero, offset and all.
    minimum : float
        The activation's smallest value.
    """
    dead = np.zeros(activated.shape[1], dtype=bool) if dead is None else dead
    peak = np.where(dead, 0, np.maximum(activated.max(axis=0).astype(np.float64), 0)) * UNSEEN
    lowest = max(minimum, UNSEEN * float(activated.min()))
    importance = np.where(dead, 0, np.square(weight).sum(axis=0))

    def post_shift(fine, offset, residue):
        steps = np.where(residue, 2, 1) * fine
        needed = np.maximum((peak - offset) / 127, (offset - lowest) / 128) / steps
        shift = np.clip(np.ceil(np.log2(np.maximum(needed, 1e-9))), 0, LARGEST_POST_SHIFT)
        return np.where(dead, LARGEST_POST_SHIFT, shift)

    def error(fine, offset, residue):
        return importance * (fine * 2.0 ** post_shift(fine, offset, residue)) ** 2

    residue = np.zeros(len(peak), dtype=bool)
    coarsest = max(2 * wide_scale(peak, lowest), in_scale / 50)
    candidates = [
        (fine, offset)
        for fine in coarsest * np.geomspace(0.5, 1, 12, endpoint=False)
        for offset in np.linspace(0, np.quantile(peak, 0.9), 40)
        if not dead.any() or offset < fine * (1 << LARGEST_POST_SHIFT - 1)
    ]
    remaining = min(duplicates, np.count_nonzero(~dead))
    together = 1 + remaining // STEPS
    while True:
        fine, offset = min(candidates, key=lambda candidate: error(*candidate, residue).sum())
        if not remaining:
            break
        gain = error(fine, offset, residue) - error(fine, offset, np.ones_like(residue))
        count = min(together, remaining)
        residue = _with(residue, np.argsort(-np.where(residue | dead, -1, gain), kind="stable")[:count])
        remaining -= count
    return HiddenScales(fine, offset, post_shift(fine, offset, residue).astype(np.int64), residue)


def _with(flags, index):
    flags = flags.copy()
    flags[index] = True
    return flags
