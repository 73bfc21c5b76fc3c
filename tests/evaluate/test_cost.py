"""A recipe's MACs are those of the array."""

from bertha.evaluate.cost import model_cost
from bertha.rtl.config import preset
from tests.golden.models import random_model


def test_wide_operands_and_duplicates_cost_macs():
    config, tokens = preset("tiny4"), 8
    shapes = ((2, 6, 20), (1, 4, 16))
    plain, doubled, wide, value = (
        model_cost(random_model(seed=1, shapes=shapes, **options), config, tokens)
        for options in (
            {"duplicates": 0},
            {"duplicates": 4},
            {"duplicates": 0, "wide": [(1, "down"), (1, "projections")]},
            {"duplicates": 0, "wide": [(1, "value")]},
        )
    )
    # Projections and `output` of 24 channels, attention, the feed-forward network; all multiples of 4.
    linears = [8 * (3 * 24 * heads * dim + heads * dim * 24 + 2 * 24 * ffn) for heads, dim, ffn in shapes]
    # P·V and scores of heads of 6 dimensions: the other two of two panels are padding.
    model = sum(linears) + 2 * 8 * 8 * (2 * 6 + 4)
    assert plain.model_macs == doubled.model_macs == wide.model_macs == value.model_macs == model
    assert model <= plain.macs < 1.3 * model
    assert plain.macs < doubled.macs and plain.cycles <= doubled.cycles
    assert wide.macs == plain.macs + 8 * (3 * 24 * 4 + 16 * 24)
    assert value.macs == plain.macs + 8 * 8 * 4
    assert plain.cycles <= value.cycles < wide.cycles
