"""How often integer embeddings find the neighbour that float ones find."""

import numpy as np

from bertha.evaluate.comparison import Comparison
from bertha.evaluate.intervals import paired_interval

__all__ = ["compare_neighbours", "nearest"]

ROWS = 512


def nearest(vectors) -> np.ndarray:
    """int [n]: of each normalised vector the one with the largest cosine, itself left out."""
    vectors = np.asarray(vectors, np.float64)
    results = []
    for start in range(0, len(vectors), ROWS):
        cosines = vectors[start : start + ROWS] @ vectors.T
        rows = np.arange(len(cosines))
        cosines[rows, start + rows] = -np.inf
        results.append(cosines.argmax(axis=1))
    return np.concatenate(results)


def compare_neighbours(reference, results) -> dict[str, Comparison]:
    """Share of the rows whose nearest neighbour among the others is the reference's: a `Comparison` by name.

    `reference` and each of `results` are normalised vectors [n, D].
    """
    exact = nearest(reference)
    comparisons = {}
    for name, vectors in results.items():
        difference = (nearest(vectors) == exact) - 1.0
        comparisons[name] = Comparison(
            result=float(1 + difference.mean()),
            reference=1.0,
            difference=float(difference.mean()),
            interval=paired_interval(difference[None]),
            differences=[float(difference.mean())],
        )
    return comparisons
