"""Rounding weights to int8 so that the layer's output, not each weight, is nearest to float.

`round_weights` first lets the float weights make up for what the quantised activations got wrong (a ridge
regression on them), then rounds column by column and spreads each column's error over those still to come:
GPTQ (Frantar et al., "GPTQ: accurate post-training quantization for generative pre-trained transformers",
2023), which is Optimal Brain Quantization (Frantar and Alistarh, 2022) in a fixed order.
"""

from dataclasses import dataclass

import numpy as np

__all__ = ["RoundedWeights", "round_weights"]

BLOCK = 64


@dataclass(frozen=True, eq=False)
class RoundedWeights:
    """int8 weights [out, in], the value of one LSB of each output's accumulator, and the float bias."""

    weight: np.ndarray
    scale: np.ndarray
    bias: np.ndarray


def round_weights(*, weight, activations, target, centred=True, damping=0.01, ridge=0.01, clip=1.0):
    """int8 weights for integer activations.

    Parameters
    ----------
    weight : float64 [out, in]
        In units that fit `activations`: float weight times the activation's scale.
    activations : [tokens, in]
        The integers the hardware multiplies, residues added to their features.
    target : float [tokens, out]
        What the float layer computed for these tokens, bias included.
    centred : bool
        Whether the layer has a bias, which then takes up the means.
    damping, ridge : float
        Share of the mean diagonal that is added to the Hessian, for rounding and for the regression.
    clip : float
        Largest weight that is still represented, as a share of each row's largest.
    """
    activations, target = np.asarray(activations, np.float64), np.asarray(target, np.float64)
    centre, middle = (part.mean(axis=0) * centred for part in (activations, target))
    inputs = activations - centre
    hessian = inputs.T @ inputs / len(inputs)
    scale_of_diagonal = np.mean(np.diag(hessian)) + 1e-12

    wrong = (target - middle) - inputs @ weight.T
    slope = wrong.T @ inputs / len(inputs)
    corrected = weight + np.linalg.solve(hessian + ridge * scale_of_diagonal * np.eye(len(hessian)), slope.T).T

    largest = np.abs(corrected).max(axis=1)
    scale = np.where(largest > 0, clip * largest / 127, 1.0)
    damped = hessian + damping * scale_of_diagonal * np.eye(len(hessian))
    rounded = _gptq(corrected / scale[:, None], damped)
    bias = (middle - (rounded @ centre) * scale) * centred
    return RoundedWeights(rounded.astype(np.int8), scale, bias)


def _gptq(weight, hessian):
    """Integers -127 to 127 that minimise the error of weight · activations under the Hessian."""
    order = np.argsort(-np.diag(hessian), kind="stable")
    remaining = weight[:, order].copy()
    inverse = np.linalg.inv(hessian[np.ix_(order, order)])
    upper = np.linalg.cholesky((inverse + inverse.T) / 2).T
    rounded = np.empty_like(remaining)
    for start in range(0, len(order), BLOCK):
        stop = min(start + BLOCK, len(order))
        errors = np.empty((len(weight), stop - start))
        for column in range(start, stop):
            rounded[:, column] = np.clip(np.round(remaining[:, column]), -127, 127)
            error = (remaining[:, column] - rounded[:, column]) / upper[column, column]
            remaining[:, column:stop] -= np.outer(error, upper[column, column:stop])
            errors[:, column - start] = error
        remaining[:, stop:] -= errors @ upper[start:stop, stop:]
    result = np.empty_like(rounded)
    result[:, order] = rounded
    return result
