"""Similarity of sentence pairs: how the cosine of their embeddings goes with people's scores."""

import numpy as np
from scipy.stats import rankdata

from bertha.evaluate.comparison import Comparison
from bertha.evaluate.intervals import resampled_interval

__all__ = ["compare_similarities", "spearman"]

RESAMPLES = 1000


def compare_similarities(reference, results, indices, scores) -> dict:
    """Spearman's correlation of the cosine of two embeddings with people's scores: a `Comparison` by name.

    The interval is that of other pairs, drawn with replacement.
    """
    scores = np.asarray(scores, np.float64)
    first, second = np.asarray(indices).T
    exact = (reference[first] * reference[second]).sum(axis=1)
    comparisons = {}
    for name, vectors in results.items():
        found = (vectors[first] * vectors[second]).sum(axis=1)

        def difference(rows, found=found):
            return spearman(found[rows], scores[rows]) - spearman(exact[rows], scores[rows])

        whole = np.arange(len(scores))
        comparisons[name] = Comparison(
            result=spearman(found, scores),
            reference=spearman(exact, scores),
            difference=difference(whole),
            interval=resampled_interval(difference, len(scores), RESAMPLES),
            differences=[difference(whole)],
        )
    return comparisons


def spearman(left, right) -> float:
    """Correlation of ranks, ties sharing theirs; 0 if all values of one side are equal."""
    left, right = (rankdata(values) - (len(values) + 1) / 2 for values in (left, right))
    length = np.sqrt((left @ left) * (right @ right))
    return float(left @ right / length) if length else 0.0
