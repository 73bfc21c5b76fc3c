"""In which order the words of an operand come: features, then residue words, and zeros where they pad.

The residue words of one LAYERNORM pass, or of one GEMM tile, are packed together and padded to an even number,
so what a GEMM's weights have to look like depends on how its operand was produced. Where the order of features
is free (FFN neurons; the dimensions of a head), flagged features come first: they then share a tile and cost
one padding word at most.

A wide operand has two planes of the same words, the high bytes before the low ones, and no residues.
"""

from dataclasses import dataclass

import numpy as np

from bertha.compiler.layout.panels import even

__all__ = ["KOrder", "Tile", "expand", "pass_order", "tiled_order"]

FEATURE, RESIDUE, ZERO = range(3)


@dataclass(frozen=True)
class Tile:
    """Words `first` to `first + columns` of an operand, written by one GEMM tile.

    `group` is the head (0 for the FFN), `features` the features in word order (-1: padding), `residues` how many
    of them, from the first on, have a residue word, and `residue_first` is the first residue word, or the first
    word in the low plane of a wide operand.
    """

    group: int
    first: int
    columns: int
    features: np.ndarray
    residues: int
    residue_first: int


@dataclass(frozen=True)
class KOrder:
    """What each word of an operand's (high) plane holds.

    Attributes
    ----------
    feature : int [k]
        Feature of the word, -1 for a zero.
    kind : int [k]
        FEATURE, RESIDUE or ZERO.
    tiles : tuple of Tile
        How it is produced, if tile by tile.
    words : int
        Feature words, which come first.
    wide : bool
        Whether there is a low plane too.
    """

    feature: np.ndarray
    kind: np.ndarray
    words: int
    tiles: tuple = ()
    wide: bool = False

    @property
    def k(self) -> int:
        """Words of a plane, an even number."""
        return len(self.feature)

    @property
    def lines(self) -> int:
        """Lines of a panel, all planes."""
        return self.k // 2 * (2 if self.wide else 1)

    @property
    def extra_lines(self) -> int:
        """Lines from a panel's first to its residues, or to its low plane."""
        return self.words // 2


def pass_order(residue, *, wide=False) -> KOrder:
    """Order of an operand that one pass writes: all features, then the residues of the flagged ones."""
    residue = np.asarray(residue, dtype=bool) & (not wide)
    flagged = np.flatnonzero(residue)
    words = even(len(residue))
    feature = np.full(words + even(len(flagged)), -1)
    kind = np.full(len(feature), ZERO)
    feature[: len(residue)], kind[: len(residue)] = np.arange(len(residue)), FEATURE
    place = slice(words, words + len(flagged))
    feature[place], kind[place] = flagged, RESIDUE
    return KOrder(feature, kind, words, wide=wide)


def tiled_order(groups, residue, n, *, wide=False) -> KOrder:
    """Order of an operand that GEMM tiles of up to `n` columns write, group after group of features."""
    residue = np.asarray(residue, dtype=bool) & (not wide)
    places, first = [], 0
    for group, members in enumerate(groups):
        members = np.asarray(members)
        members = np.concatenate([members[residue[members]], members[~residue[members]]])
        if len(members) & 1:
            members = np.append(members, -1)
        for start in range(0, len(members), n):
            features = members[start : start + n]
            count = int(residue[features[features >= 0]].sum())
            places.append((group, first, features, count))
            first += len(features)
    words = first
    feature = [features for _, _, features, _ in places]
    kind = [np.where(features >= 0, FEATURE, ZERO) for features in feature]
    tiles = []
    for group, place, features, count in places:
        low = words + place
        tiles.append(Tile(group, place, len(features), features, count, low if wide else first))
        if count:
            padded = np.full(even(count), -1)
            padded[:count] = features[:count]
            feature.append(padded)
            kind.append(np.where(padded >= 0, RESIDUE, ZERO))
            first += len(padded)
    if not feature:
        return KOrder(np.full(0, -1), np.full(0, ZERO), 0, (), wide)
    return KOrder(np.concatenate(feature), np.concatenate(kind), words, tuple(tiles), wide)


def expand(linear, order, name) -> np.ndarray:
    """int8 weights [out, order.k] of a linear layer whose operand comes in `order`.

    Raises
    ------
    ValueError
        If the layer has a duplicate of a feature whose residue isn't written.
    """
    columns = np.zeros((linear.weight.shape[0], order.k), dtype=np.int8)
    is_feature, is_residue = order.kind == FEATURE, order.kind == RESIDUE
    if order.feature.max() + 1 != linear.in_features:
        raise ValueError(
            f"{name} must have {order.feature.max() + 1} input features, not {linear.in_features}"
        )
    missing = np.setdiff1d(linear.duplicates, order.feature[is_residue])
    if len(missing):
        raise ValueError(f"{name} must duplicate features whose residue is written, not {missing.tolist()}")
    columns[:, is_feature] = linear.weight[:, order.feature[is_feature]]
    position = {int(feature): linear.in_features + d for d, feature in enumerate(linear.duplicates)}
    for word in np.flatnonzero(is_residue):
        column = position.get(int(order.feature[word]))
        if column is not None:
            columns[:, word] = linear.weight[:, column]
    return columns
