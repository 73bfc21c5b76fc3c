"""What downstream tasks make of embeddings: linear probes and similarities, float beside integer."""

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bertha.evaluate.intervals import paired_interval, resampled_interval

__all__ = ["Comparison", "compare_probes", "compare_similarities", "pair_features", "spearman"]

TRAIN_SHARE = 0.8
"""Of the rows to train with, drawn anew by every seed."""

INVERSE_REGULARISATION = 0.01
ITERATIONS = 500
SPEARMAN_RESAMPLES = 1000


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A figure of integer embeddings beside the float ones'.

    Attributes
    ----------
    result, reference : float
        Mean over seeds: accuracy, or Spearman's correlation.
    difference : float
        result - reference.
    interval : (float, float)
        95 % confidence interval of the difference.
    differences : list of float
        By seed.
    """

    result: float
    reference: float
    difference: float
    interval: tuple
    differences: list


def pair_features(vectors, indices) -> np.ndarray:
    """Features of rows of one text or two: the embedding u; or u, v, |u - v| and u * v (Conneau et al., 2017).

    `indices` is int [rows, texts], into `vectors`.
    """
    parts = [vectors[column] for column in np.asarray(indices).T]
    if len(parts) == 1:
        return parts[0]
    first, second = parts
    return np.concatenate([first, second, np.abs(first - second), first * second], axis=1)


def compare_probes(reference, results, labels, train_rows, seeds, advance=lambda: None) -> dict:
    """Accuracy of linear probes on float embeddings and on integer ones.

    Each seed draws its own part of the rows to train with; both sides train on the same rows, each on its own
    embeddings, and are tested on the same others.

    Parameters
    ----------
    reference : float [rows, features]
        The float model's.
    results : dict of str to float [rows, features]
    labels : sequence of str
    train_rows : int
        The first rows, to train with; all others are to test with.
    seeds : int
        How many seeds.
    advance : callable
        Is called after every probe.

    Returns
    -------
    dict of str to Comparison
    """
    labels = np.asarray(labels)
    subsets = [_subset(labels[:train_rows], seed) for seed in range(seeds)]

    def right(features):
        """bool [seeds, rows to test with]"""
        rows = []
        for subset in subsets:
            rows.append(_predictions(features, labels, subset, train_rows) == labels[train_rows:])
            advance()
        return np.array(rows)

    exact = right(reference)
    return {name: _compared(right(features), exact) for name, features in results.items()}


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
            interval=resampled_interval(difference, len(scores), SPEARMAN_RESAMPLES),
            differences=[difference(whole)],
        )
    return comparisons


def spearman(left, right) -> float:
    """Correlation of ranks, ties sharing theirs; 0 if all values of one side are equal."""
    left, right = (rankdata(values) - (len(values) + 1) / 2 for values in (left, right))
    length = np.sqrt((left @ left) * (right @ right))
    return float(left @ right / length) if length else 0.0


def _subset(labels, seed):
    """Rows that a seed trains with; at least one of two classes."""
    generator = np.random.default_rng(seed)
    count = max(2, round(TRAIN_SHARE * len(labels)))
    while True:
        rows = np.sort(generator.permutation(len(labels))[:count])
        if len(set(labels[rows])) > 1:
            return rows
        count = min(count + 1, len(labels))


def _predictions(features, labels, subset, train_rows):
    probe = make_pipeline(StandardScaler(), LogisticRegression(C=INVERSE_REGULARISATION, max_iter=ITERATIONS))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        probe.fit(features[subset], labels[subset])
    return probe.predict(features[train_rows:])


def _compared(found, exact):
    difference = found.astype(np.float64) - exact
    return Comparison(
        result=float(found.mean()),
        reference=float(exact.mean()),
        difference=float(difference.mean()),
        interval=paired_interval(difference),
        differences=difference.mean(axis=1).tolist(),
    )
