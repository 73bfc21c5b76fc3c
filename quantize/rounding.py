"""Rounding weights to int8 so that the layer's output, not each weight, is nearest to float.

`round_weights` first lets the float weights make up for what the quantised activations got wrong (a ridge
regression on them), then rounds column by column and spreads each column's error over those still to come:
GPTQ (Frantar et al., "GPTQ: accurate post-training quantization for generative pre-trained transformers",
2023), which is Optimal Brain Quantization (Frantar and Alistarh, 2022) in a fixed order.
"""

from dataclasses import dataclass

import numpy as np
import torch

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


def round_weights(*, weight, activations, target, damping=0.01):
    """int8 weights for integer activations.

    Parameters
    ----------
    weight : float64 [out, in]
        In units that fit `activations`: float weight times the activation's scale.
    activations : [tokens, in]
        The integers the hardware multiplies, residues added to their features.
    target : float [tokens, out]
        What the float layer computed for these tokens, bias included.
    damping : float
        Share of the Hessian's mean diagonal that is added to it, for the regression and for rounding.
    """
    activations, target = np.asarray(activations, np.float32), np.asarray(target, np.float32)
    centre, middle = (part.mean(axis=0, dtype=np.float64) for part in (activations, target))
    inputs = activations - centre.astype(np.float32)
    hessian = (inputs.T @ inputs).astype(np.float64) / len(inputs)
    wanted = ((target - middle.astype(np.float32)).T @ inputs).astype(np.float64) / len(inputs)
    damped = hessian + damping * (np.mean(np.diag(hessian)) + 1e-12) * np.eye(len(hessian))
    order = np.argsort(-np.diag(hessian), kind="stable")
    factor = torch.linalg.cholesky(torch.from_numpy(damped[np.ix_(order, order)]))

    wrong = torch.from_numpy((wanted - weight @ hessian)[:, order].T)
    corrected = weight[:, order] + torch.cholesky_solve(wrong, factor).numpy().T
    largest = np.abs(corrected).max(axis=1)
    scale = np.where(largest > 0, largest / 127, 1.0)
    upper = torch.linalg.cholesky(torch.cholesky_inverse(factor), upper=True).numpy()
    rounded = np.empty_like(corrected)
    rounded[:, order] = _gptq(corrected / scale[:, None], upper)
    return RoundedWeights(rounded.astype(np.int8), scale, middle - (rounded @ centre) * scale)


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
