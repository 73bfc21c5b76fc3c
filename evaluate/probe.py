"""Linear probes on embeddings, float beside integer."""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bertha.evaluate.comparison import Comparison
from bertha.evaluate.intervals import paired_interval

__all__ = ["compare_probes", "pair_features"]

TRAIN_SHARE = 0.8
"""Of the rows to train with, drawn anew by every seed."""

INVERSE_REGULARISATIONS = (0.001, 0.01, 0.1)
"""Of the probes; the best of them on the float model's embeddings serves all."""

FOLDS = 3
ITERATIONS = 500


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

    The probes are logistic regressions on standardised features. Each seed draws its own part of the rows to train with; both sides train on the same rows, each on its own
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

    strength = _regularisation(reference[:train_rows], labels[:train_rows])

    def right(features):
        """bool [seeds, rows to test with]"""
        rows = []
        for subset in subsets:
            probe = _probe(strength)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                probe.fit(features[subset], labels[subset])
            rows.append(probe.predict(features[train_rows:]) == labels[train_rows:])
            advance()
        return np.array(rows)

    exact = right(reference)
    return {name: _compared(right(features), exact) for name, features in results.items()}


def _subset(labels, seed):
    """Rows that a seed trains with; at least one of two classes."""
    generator = np.random.default_rng(seed)
    count = max(2, round(TRAIN_SHARE * len(labels)))
    while True:
        rows = np.sort(generator.permutation(len(labels))[:count])
        if len(set(labels[rows])) > 1:
            return rows
        count = min(count + 1, len(labels))


def _probe(strength):
    return make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=ITERATIONS))


def _regularisation(features, labels):
    """The inverse regularisation that predicts best, by cross-validation on the rows to train with."""
    folds = KFold(FOLDS, shuffle=True, random_state=0)
    if len(labels) < FOLDS or any(len(set(labels[rows])) < 2 for rows, _ in folds.split(labels)):
        return INVERSE_REGULARISATIONS[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        scores = [
            cross_val_score(_probe(strength), features, labels, cv=folds).mean()
            for strength in INVERSE_REGULARISATIONS
        ]
    return INVERSE_REGULARISATIONS[int(np.argmax(scores))]


def _compared(found, exact):
    difference = found.astype(np.float64) - exact
    return Comparison(
        result=float(found.mean()),
        reference=float(exact.mean()),
        difference=float(difference.mean()),
        interval=paired_interval(difference),
        differences=difference.mean(axis=1).tolist(),
    )
