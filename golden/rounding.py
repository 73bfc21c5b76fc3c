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

    def rows(self, which):
        """Some of the outputs."""
        return RoundedWeights(self.weight[which], self.scale[which], self.bias[which])


def round_weights(*, weight, activations, target, damping=0.01, ridge=0.01):
    """int8 weights for integer activations.

    Parameters
    ----------
    weight : float64 [out, in]
        In units that fit `activations`: float weight times the activation's scale.
    activations : [tokens, in]
        The integers the hardware multiplies, residues added to their features.
    target : float [tokens, out]
        What the float layer computed for these tokens, bias included.
    damping, ridge : float
        Share of the mean diagonal that is added to the Hessian, for rounding and for the regression.
    """
    activations, target = np.asarray(activations, np.float32), np.asarray(target, np.float32)
    centre, middle = (part.mean(axis=0, dtype=np.float64) for part in (activations, target))
    inputs = activations - centre.astype(np.float32)
    hessian = (inputs.T @ inputs).astype(np.float64) / len(inputs)
    wanted = ((target - middle.astype(np.float32)).T @ inputs).astype(np.float64) / len(inputs)
    unit = (np.mean(np.diag(hessian)) + 1e-12) * np.eye(len(hessian))

    correction = np.linalg.solve(hessian + ridge * unit, (wanted - weight @ hessian).T).T
    corrected = weight + correction
    largest = np.abs(corrected).max(axis=1)
    scale = np.where(largest > 0, largest / 127, 1.0)
    rounded = _gptq(corrected / scale[:, None], hessian + damping * unit)
    return RoundedWeights(rounded.astype(np.int8), scale, middle - (rounded @ centre) * scale)


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
