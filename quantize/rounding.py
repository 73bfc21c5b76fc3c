"""Rounding weights to int8 so that the layer's output, not each weight, is nearest to float.

`round_weights` first lets the float weights make up for what the quantised activations got wrong (a ridge
regression on them), then rounds column by column and spreads each column's error over those still to come:
GPTQ (Frantar et al., "GPTQ: accurate post-training quantization for generative pre-trained transformers",
2023), which is Optimal Brain Quantization (Frantar and Alistarh, 2022) in a fixed order.
"""

from dataclasses import dataclass

import numpy as np
import torch

__all__ = ["RoundedWeights", "fitting_bias", "round_weights"]

BLOCK = 64

CLIPS = (1, 0.92, 0.84, 0.76, 0.68, 0.6)
"""Shares of a row's largest weight that its range may end at."""

FINEST = 2.0**-24
"""An accumulator's LSB over its result's, at least: 4096 weights that round to zero are 1/64 of a result."""

FINEST_BIAS = 2.0**-8
"""The same for a row of zero weights, whose result is its bias alone."""

LARGEST_BIAS = 2**29
"""Largest bias in units of the accumulator, before rounding moves it a little."""


@dataclass(frozen=True, eq=False)
class RoundedWeights:
    """int8 weights [out, in], the value of one LSB of each output's accumulator, and the float bias."""

    weight: np.ndarray
    scale: np.ndarray
    bias: np.ndarray


def round_weights(
    *, weight, activations, target, out_scale=0.0, damping=0.05, importance=None
) -> RoundedWeights:
    """int8 weights for integer activations.

    What is dead stays so: rows and columns of zeros are zeros in the result. A column whose activation never
    varies carries nothing but a constant, which the bias gives exactly; so it has no say in its rows' scales.

    Parameters
    ----------
    weight : float64 [out, in]
        In units that fit `activations`: float weight times the activation's scale.
    activations : [tokens, in]
        The integers the hardware multiplies, residues added to their features.
    target : float [tokens, out]
        What the float layer computed for these tokens, bias included.
    out_scale : float or float [out]
        LSB of each result. Accumulators are not made finer than anything that shows in it, so that biases fit.
    damping : float
        Share of the Hessian's mean diagonal that is added to it, for the regression and for rounding.
    importance : float [tokens], optional
        How much each token's error counts; by default all alike.
    """
    activations, target = np.asarray(activations, np.float32), np.asarray(target, np.float32)
    share = np.full(len(activations), 1.0) if importance is None else np.asarray(importance, np.float64)
    share = (share / share.sum()).astype(np.float32)
    centre, middle = (_mean(share, part) for part in (activations, target))
    inputs = activations - centre.astype(np.float32)
    weighted = inputs * share[:, None]
    hessian = (inputs.T @ weighted).astype(np.float64)
    wanted = ((target - middle.astype(np.float32)).T @ weighted).astype(np.float64)
    living = weight.any(axis=1)
    varies = np.diag(hessian) > 0
    free = np.flatnonzero(varies & weight.any(axis=0))
    order = free[np.argsort(-np.diag(hessian)[free], kind="stable")]

    corrected = weight.copy()
    if len(order):
        among = hessian[np.ix_(order, order)]
        damped = among + damping * (np.mean(np.diag(among)) + 1e-12) * np.eye(len(order))
        factor = torch.linalg.cholesky(torch.from_numpy(damped))
        wrong = torch.from_numpy((wanted - weight @ hessian)[:, order].T)
        corrected[:, order] += torch.cholesky_solve(wrong, factor).numpy().T
        corrected[~living] = 0
    largest = np.abs(corrected[:, order]).max(axis=1, initial=0)
    largest = np.where(largest > 0, largest, np.abs(corrected).max(axis=1))
    corrected = np.clip(corrected, -largest[:, None], largest[:, None])
    scale = _row_scales(largest, out_scale, middle - corrected @ centre)
    if len(order):
        scale = _clipped(corrected[:, order], among, scale)
    rounded = np.round(corrected / scale[:, None])
    if len(order):
        upper = torch.linalg.cholesky(torch.cholesky_inverse(factor), upper=True).numpy()
        rounded[:, order] = _gptq(corrected[:, order] / scale[:, None], upper)
    return RoundedWeights(rounded.astype(np.int8), scale, middle - (rounded @ centre) * scale)


def fitting_bias(rounded, activations, target, importance=None) -> np.ndarray:
    """Float bias [out] with which rounded weights' results on `activations` [tokens, in] have the target's mean."""
    share = np.full(len(activations), 1.0) if importance is None else np.asarray(importance, np.float64)
    share = (share / share.sum()).astype(np.float32)
    centre, middle = (_mean(share, np.asarray(part, np.float32)) for part in (activations, target))
    return middle - (rounded.weight @ centre) * rounded.scale


def _mean(share, values):
    """Weighted mean over tokens, float64; of a constant, the constant exactly, so that it counts as one."""
    first = values[0].astype(np.float64)
    mean = first + (share @ (values - values[0])).astype(np.float64)
    return np.where(np.ptp(values, axis=0) > 0, mean, first)


def _row_scales(largest, out_scale, bias):
    """LSB of each row's accumulator: from its largest weight, but no finer than `out_scale` and bias allow."""
    floor = np.maximum(np.where(largest > 0, FINEST, FINEST_BIAS) * out_scale, np.abs(bias) / LARGEST_BIAS)
    scale = np.maximum(largest / 127, floor)
    return np.where(scale > 0, scale, 1.0)


def _clipped(weight, hessian, scale):
    """Finer scales for rows of which a few weights are better saturated: the largest isn't worth all others' precision.

    What each scale costs is judged by rounding to nearest; GPTQ makes up for part of it later.
    """
    best, least = scale, np.full(len(scale), np.inf)
    for share in CLIPS:
        tried = share * scale
        error = weight - np.clip(np.round(weight / tried[:, None]), -127, 127) * tried[:, None]
        cost = ((error @ hessian) * error).sum(axis=1)
        best, least = np.where(cost < least, tried, best), np.minimum(cost, least)
    return best


def _gptq(weight, upper):
    """Integers -127 to 127 near `weight`, whose errors later columns make up for.

    `upper` is the upper Cholesky factor of the inverse Hessian, in the order of the columns.
    """
    remaining = weight.copy()
    rounded = np.empty_like(remaining)
    columns = remaining.shape[1]
    for start in range(0, columns, BLOCK):
        stop = min(start + BLOCK, columns)
        errors = np.empty((len(weight), stop - start))
        for column in range(start, stop):
            rounded[:, column] = np.clip(np.round(remaining[:, column]), -127, 127)
            error = (remaining[:, column] - rounded[:, column]) / upper[column, column]
            remaining[:, column:stop] -= np.outer(error, upper[column, column:stop])
            errors[:, column - start] = error
        remaining[:, stop:] -= errors @ upper[start:stop, stop:]
    return rounded
