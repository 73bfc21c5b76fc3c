"""How far one result is from another, over real tokens only."""

from dataclasses import dataclass

import numpy as np

__all__ = ["Agreement", "agreement", "pooled"]


@dataclass(frozen=True)
class Agreement:
    """Cosine by token (mean and worst), signal to noise ratio in dB, and the largest absolute error."""

    cosine_mean: float
    cosine_min: float
    snr_db: float
    max_error: float
    tokens: int


def agreement(result, reference, mask=None) -> Agreement:
    """Compare [S, features] arrays, `result` with `reference`; `mask` [S] is true for real tokens."""
    result, reference = np.asarray(result, np.float64), np.asarray(reference, np.float64)
    if result.shape != reference.shape:
        raise ValueError(
            f"result must have its reference's shape {list(reference.shape)}, not {list(result.shape)}"
        )
    if mask is not None:
        real = np.asarray(mask, dtype=bool)
        result, reference = result[real], reference[real]
    lengths = np.linalg.norm(result, axis=1) * np.linalg.norm(reference, axis=1)
    cosine = (result * reference).sum(axis=1) / np.maximum(lengths, np.finfo(np.float64).tiny)
    cosine[~result.any(axis=1) & ~reference.any(axis=1)] = 1  # zero where zero is right
    error = result - reference
    noise = np.square(error).sum()
    snr = 10 * np.log10(np.square(reference).sum() / noise) if noise else np.inf
    return Agreement(
        float(cosine.mean()), float(cosine.min()), float(snr), float(np.abs(error).max()), len(cosine)
    )


def pooled(results, references, masks=None) -> Agreement:
    """`agreement` over the tokens of several sentences together."""
    masks = [None] * len(results) if masks is None else masks
    kept = [
        (r, f) if m is None else (np.asarray(r)[np.asarray(m, bool)], np.asarray(f)[np.asarray(m, bool)])
        for r, f, m in zip(results, references, masks, strict=True)
    ]
    return agreement(np.concatenate([r for r, _ in kept]), np.concatenate([f for _, f in kept]))
