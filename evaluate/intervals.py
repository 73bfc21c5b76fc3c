"""Confidence intervals by resampling (Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13)."""

from collections.abc import Callable

import numpy as np

__all__ = ["paired_interval", "resampled_interval"]

CONFIDENCE = 0.95
RESAMPLES = 2000


def paired_interval(differences, resamples=RESAMPLES) -> tuple[float, float]:
    """95 % interval of the mean of paired differences [seeds, items].

    Both are resampled, so it holds for other training subsets and for other items to test with.
    """
    differences = np.asarray(differences, np.float64)
    seeds, items = differences.shape
    generator = np.random.default_rng(0)
    by_seed = generator.multinomial(seeds, np.full(seeds, 1 / seeds), resamples) / seeds
    by_item = generator.multinomial(items, np.full(items, 1 / items), resamples) / items
    return _percentiles(np.einsum("rs,ri,si->r", by_seed, by_item, differences, optimize=True))


def resampled_interval(statistic: Callable, items, resamples=RESAMPLES) -> tuple[float, float]:
    """95 % interval of `statistic(indices)` over items drawn with replacement."""
    generator = np.random.default_rng(0)
    return _percentiles([statistic(generator.integers(items, size=items)) for _ in range(resamples)])


def _percentiles(values):
    low, high = np.percentile(values, [50 * (1 - CONFIDENCE), 50 * (1 + CONFIDENCE)])
    return float(low), float(high)
