"""A figure of integer embeddings beside the float ones'."""

from dataclasses import dataclass

__all__ = ["Comparison"]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A figure of integer embeddings beside the float ones'.

    Attributes
    ----------
    result, reference : float
        Mean over seeds: accuracy, Spearman's correlation, or a share of neighbours.
    difference : float
        result - reference.
    interval : (float, float)
        95 % confidence interval of the difference.
    differences : list of float
        By seed; one where nothing depends on one.
    """

    result: float
    reference: float
    difference: float
    interval: tuple
    differences: list
