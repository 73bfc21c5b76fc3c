import numpy as np
import pytest

from bertha.compiler.layout.order import expand, pass_order, tiled_order
from bertha.golden.layer import QuantizedLinear


def linear(weight, duplicates):
    duplicates = np.asarray(duplicates, dtype=int)
    out = len(weight)
    return QuantizedLinear(
        weight=np.concatenate([weight, weight[:, duplicates]], axis=1).astype(np.int8),
        duplicates=duplicates,
        bias=np.zeros(out, np.int32),
        mult=np.ones(out, np.uint16),
        shift=np.zeros(out, np.uint8),
        post_shift=np.zeros(out, np.uint8),
    )


def operand(order, features, residues):
    """What hardware writes in this order, for one row."""
    kinds = {0: features, 1: residues}
    return np.array(
        [
            0 if kind == 2 else kinds[int(kind)][int(f)]
            for f, kind in zip(order.feature, order.kind, strict=True)
        ]
    )


@pytest.mark.parametrize("seed", range(6))
def test_products_do_not_depend_on_the_order(seed):
    rng = np.random.default_rng(seed)
    groups = [np.arange(0, 10), np.arange(10, 20), np.arange(20, 25)]
    flags = rng.random(25) < 0.3
    duplicates = np.flatnonzero(flags)
    weight = rng.integers(-127, 128, (7, 25))
    features, residues = rng.integers(-128, 128, 25), rng.integers(-128, 128, 25)
    expected = weight @ features + weight[:, duplicates] @ residues[duplicates]
    for order in (pass_order(flags), tiled_order(groups, flags, 4), tiled_order(groups, flags, 16)):
        assert order.k % 2 == 0
        product = expand(linear(weight, duplicates), order, "test").astype(int) @ operand(
            order, features, residues
        )
        assert np.array_equal(product, expected)


def test_flagged_features_share_a_tile_and_its_padding():
    flags = np.zeros(12, dtype=bool)
    flags[[2, 7, 11]] = True
    order = tiled_order([np.arange(12)], flags, 4)
    assert [tile.residues for tile in order.tiles] == [3, 0, 0]
    assert order.tiles[0].features.tolist() == [2, 7, 11, 0]
    assert order.k == 12 + 4


def test_a_residue_without_duplicate_is_multiplied_by_zero():
    order = pass_order([True, False])
    weights = expand(linear(np.array([[3, 4]]), []), order, "test")
    assert weights.tolist() == [[3, 4, 0, 0]]


def test_a_duplicate_without_residue_is_refused():
    with pytest.raises(ValueError, match=r"test must duplicate features whose residue is written, not \[1\]"):
        expand(linear(np.array([[3, 4]]), [1]), pass_order([True, False]), "test")


def test_widths_must_match():
    with pytest.raises(ValueError, match="must have 4 input features, not 2"):
        expand(linear(np.array([[3, 4]]), []), pass_order([False] * 4), "test")
