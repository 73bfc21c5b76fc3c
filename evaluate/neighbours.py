"""How often integer embeddings find the neighbour that float ones find."""

import numpy as np

__all__ = ["nearest", "same_neighbour"]

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


def same_neighbour(vectors, reference) -> float:
    """Share of the rows [n, hidden] whose nearest neighbour among the others is the reference's."""
    return float(np.mean(nearest(vectors) == nearest(reference)))
