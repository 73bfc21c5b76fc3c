"""How finely each input channel of a linear layer is kept: precision shared between activations and weights.

A channel's scale s[c] multiplies its column of weights. Finer scales round activations less; but a row's weights
share one step, so columns whose scales are small fill little of their rows' range. And a scale too fine for the
largest activations cuts them off. In the spirit of SmoothQuant (Xiao et al., 2023), but with the error itself as
the aim, for scales s of channels c and outputs o:

    sum over c of  sum over o of W[o,c]**2  *  (s[c]**2 / 12 + CLIPPED * mean square of what is cut off)
  + SYSTEMATIC * sum over o of step[o]**2 / 12  *  sum over c of var(x[c]) / s[c]**2,
    step[o] = max over c of |W[o,c]| s[c] / 127

which gradient descent on log s finds. `SYSTEMATIC` counts in that a rounded weight errs the same way in all tokens of a
sentence, while activations' rounding errors average out in its embedding.
"""

from dataclasses import dataclass

import numpy as np
import torch

__all__ = ["CLIPPED", "Channels", "balanced_scales", "duplicated_scales", "rounded_share"]

CLIPPED = 12.0
"""How much more a squared error of a saturated value counts: it hits few sentences, but those hard."""

SYSTEMATIC = 1.5
"""How much more a squared error of a weight counts than one of an activation: measured, with what is left of it after
`bertha.quantize.rounding`."""

SHARPNESS = 24
"""Norm that stands for a row's largest weight: smooth, and a few large ones may be cut off."""

RANGES = np.geomspace(1 / 8, 1, 25)
"""Shares of a channel's largest value at which what is cut off is known."""

ROWS = 256
"""Outputs that are looked at: so many rows' largest weights say what all would."""

STEPS, STEPS_MORE = 60, 20
RATE = 0.15


@dataclass(frozen=True, eq=False)
class Channels:
    """What is known of an operand's channels.

    Attributes
    ----------
    peak : float64 [channels]
        Largest magnitude, above 0.
    variance : float64 [channels]
    cut_off : float64 [ranges, channels]
        Mean square of what is beyond `RANGES` times the peak.
    """

    peak: np.ndarray
    variance: np.ndarray
    cut_off: np.ndarray

    @classmethod
    def of(cls, values, importance=None) -> "Channels":
        """Of activations [tokens, channels]; `importance` [tokens] is how much each token counts."""
        share = np.full(len(values), 1 / len(values)) if importance is None else importance / importance.sum()
        peak = np.maximum(np.abs(values).max(axis=0).astype(np.float64), 1e-12)
        mean = share @ values
        variance = share @ np.square(values - mean.astype(np.float32))
        magnitude = np.abs(values)
        return cls(
            peak=peak,
            variance=np.maximum(variance, 1e-18),
            cut_off=np.array([_cut_off(magnitude, limit * peak, share) for limit in RANGES]),
        )


def _cut_off(values, limit, share) -> np.ndarray:
    """Mean square of what values [tokens, channels] have beyond a limit a channel; `share` [tokens] sums to 1."""
    return (share.astype(np.float32) @ np.square(np.maximum(values - limit.astype(np.float32), 0))).astype(
        np.float64
    )


def balanced_scales(channels, weight, reach, *, start=None, finest=0.0) -> np.ndarray:
    """Scale of each channel, float64 [channels].

    Parameters
    ----------
    channels : Channels
    weight : float64 [out, channels]
        No column is zero. Rows may be weighted by how much each output matters.
    reach : float or float [channels]
        Steps from zero to the largest value an operand holds.
    start : float64 [channels], optional
        Scales that are nearly right already.
    finest : float
        No scale is smaller.
    """
    reach = np.broadcast_to(np.asarray(reach, np.float64), channels.peak.shape)
    power = _float32(np.square(weight).sum(axis=0))
    log_weight, share = _sampled(weight)
    variance, unit, table = (
        _float32(part) for part in (channels.variance, reach / channels.peak, channels.cut_off)
    )
    lowest = torch.tensor(np.log(max(finest, 1e-30)), dtype=torch.float32)
    total = float((channels.variance * np.square(weight).sum(axis=0)).sum())
    steps = STEPS if start is None else STEPS_MORE
    begin = np.maximum(channels.peak / reach if start is None else start, finest)
    fit = _float32(np.log(begin)).requires_grad_()
    optimiser = torch.optim.Adam([fit], lr=RATE, betas=(0.8, 0.95))
    best, found = np.inf, None
    for step in range(steps):
        optimiser.param_groups[0]["lr"] = RATE * (1 - step / steps)
        scale = torch.maximum(fit, lowest)
        spread = torch.exp(2 * scale)
        beyond = _interpolated(table, torch.exp(scale) * unit)
        activations = (power * (spread / 12 + CLIPPED * beyond)).sum()
        rows = torch.logsumexp(SHARPNESS * (log_weight + scale), dim=1) / SHARPNESS
        weights = share * torch.exp(2 * rows).sum() / (12 * 127**2) * (variance / spread).sum()
        error = (activations + SYSTEMATIC * weights) / total
        if error.item() < best:
            best, found = error.item(), scale.detach().clone()
        optimiser.zero_grad()
        error.backward()
        optimiser.step()
    return np.exp(found.double().numpy())


def duplicated_scales(channels, weight, count, reaches, *, finest=0.0) -> tuple[np.ndarray, np.ndarray]:
    """Scales and flags (bool) of channels of which the `count` that gain most reach further.

    Outlier channel splitting (Zhao et al., 2019): a duplicated channel's scale may be half as large, for the same range.

    Parameters
    ----------
    channels, weight, finest : see `balanced_scales`
    count : int
    reaches : (int, int)
        Steps from zero to the largest value, of plain and of duplicated channels.
    """
    flags = np.zeros(len(channels.peak), dtype=bool)
    scale = balanced_scales(channels, weight, reaches[0], finest=finest)
    count = min(count, len(flags))
    for part in np.array_split(np.arange(count), BATCHES) if count else ():
        gain = np.where(flags, -np.inf, _gains(channels, weight, scale))
        flags[np.argsort(-gain, kind="stable")[: len(part)]] = True
        reach = np.where(flags, reaches[1], reaches[0])
        scale = balanced_scales(channels, weight, reach, start=scale, finest=finest)
    return scale, flags


BATCHES = 3
"""In so many steps are duplicates chosen."""


def rounded_share(channels, weight, scale) -> float:
    """What rounding weights costs over what rounding activations costs, at these scales."""
    steps = np.square((np.abs(weight) * scale).max(axis=1)).sum() / (12 * 127**2)
    activations = (np.square(weight).sum(axis=0) * scale**2).sum() / 12
    return SYSTEMATIC * steps * (channels.variance / scale**2).sum() / activations


def _gains(channels, weight, scale):
    """How much the error shrinks if a channel's scale alone is halved, by channel."""
    log_weight, share = _sampled(weight)
    parts = np.exp(SHARPNESS * (log_weight.numpy().astype(np.float64) + np.log(scale / scale.max())))
    rows = parts.sum(axis=1, keepdims=True)
    halved = np.power(rows - parts * (1 - 2.0**-SHARPNESS), 2 / SHARPNESS).sum(axis=0)
    steps = np.power(rows, 2 / SHARPNESS).sum()
    noise = channels.variance / scale**2
    weights = steps * noise.sum() - halved * (noise.sum() + 3 * noise)
    activations = 0.75 * np.square(weight).sum(axis=0) * scale**2 / 12
    return SYSTEMATIC * share * scale.max() ** 2 / (12 * 127**2) * weights + activations


def _sampled(weight):
    """Logarithms of some rows' weights, float32 tensor, and how many rows each stands for."""
    rows = weight[:: max(1, len(weight) // ROWS)]
    return _float32(np.log(np.maximum(np.abs(rows), 1e-30))), len(weight) / len(rows)


def _float32(values):
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32))


def _interpolated(table, share):
    """What is cut off at a share of the peak: linear between the table's rows, growing below the first."""
    first, ratio = np.log(RANGES[0]), np.log(RANGES[1] / RANGES[0])
    place = (torch.log(share) - first) / ratio
    row = place.detach().floor().clamp(0, len(table) - 2).long()
    low, high = table.gather(0, row[None])[0], table.gather(0, row[None] + 1)[0]
    return torch.where(share >= 1, torch.zeros(()), low + (high - low) * (place - row))
