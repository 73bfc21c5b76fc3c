"""Choosing scales: fixed-point factors, and how finely each input channel of a linear layer is quantised."""

from dataclasses import dataclass

import numpy as np

from bertha.quantize.balancing import Channels, balanced_scales, duplicated_scales

__all__ = [
    "HiddenScales",
    "OperandScales",
    "fixed_point",
    "hidden_scales",
    "norm_input_scale",
    "operand_scales",
    "shared_fixed_point",
    "wide_hidden_scales",
    "wide_scale",
    "worthwhile_peak",
]

HEADROOM = 1.25
"""Largest int16 value over the largest that calibration saw."""

WIDE_REACH = 32639
"""Largest value that two signed bytes hold."""

REACH = 254
"""Largest |value| of a duplicated channel: 127 in each of its two columns."""

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

    def rounded(self, values, dither=None) -> np.ndarray:
        """Values [tokens, channels] as whole steps, float64, residues included; `dither` [channels] moves them first."""
        low, high = (-32768, WIDE_REACH) if self.wide else (-128, 127)
        reach = np.where(self.residue, 2, 1)
        steps = values / self.scale + (0 if dither is None else dither)
        return np.clip(np.round(steps), low * reach, high * reach)


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


def operand_scales(
    activations, weight, duplicates=0, *, finest=0.0, importance=None, wide=False
) -> OperandScales:
    """Scales of an operand that share the difficulty between activations and weights (`bertha.quantize.balancing`).

    Parameters
    ----------
    activations : float [tokens, in]
    weight : float64 [out, in]
        Rows may be weighted by how much each output matters.
    duplicates : int
        Channels that reach twice as far; a wide operand has none.
    finest : float
        LSB of the int16 stream that the operand is made of: nothing finer is in it.
    importance : float [tokens], optional
        How much each token's error counts.
    wide : bool
        16 bits: activations have precision to spare, which goes to the weights.

    Channels that don't vary, and those whose weights are zero, say nothing about the others' scales, and are
    never duplicated.
    """
    activations = np.asarray(activations)
    low, high = (np.asarray(end, np.float64) for end in (activations.min(axis=0), activations.max(axis=0)))
    largest = np.maximum(np.abs(low), np.abs(high))
    reach = WIDE_REACH / HEADROOM if wide else 127 / UNSEEN
    living = (high - low > finest) & weight.any(axis=0)
    scale = np.full(len(largest), np.inf)
    residue = np.zeros(len(largest), dtype=bool)
    if living.any():
        channels, part = Channels.of(activations[:, living], importance), weight[:, living]
        if wide:
            found = balanced_scales(channels, part, reach, finest=finest)
            scale[living] = np.maximum(found, found.max() / SPREAD)
        else:
            scale[living], residue[living] = duplicated_scales(
                channels, part, duplicates, (reach, REACH / UNSEEN), finest=finest
            )
    usual = np.median(scale[living]) if living.any() else finest
    scale[~living] = np.maximum(largest[~living] / reach, usual)
    return OperandScales(np.where(scale > 0, scale, 1.0), residue, wide)


def wide_hidden_scales(activated, weight, *, in_scale=0.0, dead=None, importance=None) -> HiddenScales:
    """`hidden_scales` of a wide operand: no offset, and a neuron's power of two gives its weights precision."""
    dead = np.zeros(activated.shape[1], dtype=bool) if dead is None else dead
    largest = np.abs(activated).max(axis=0).astype(np.float64)
    fine = max(wide_scale(largest[~dead]) if (~dead).any() else 1.0, in_scale / 50)
    shift = np.where(dead, LARGEST_POST_SHIFT, 0)
    living = ~dead & weight.any(axis=0) & (np.ptp(activated, axis=0) > 0)
    if living.any():
        channels = Channels.of(activated[:, living], importance)
        scale = balanced_scales(channels, weight[:, living], WIDE_REACH / HEADROOM, finest=fine)
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
        Of the linear layer that follows. Rows may be weighted by how much each output matters.
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
