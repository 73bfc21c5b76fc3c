"""A few random models on the simulated chip equal the integer model; `python -m tests.sim.random_models` for many."""

import pytest

from tests.models.checkpoints import CLASSES
from tests.sim.random_models import check, draw, draw_pruned

SEED = 20261201
DRAWS = 16


@pytest.mark.parametrize("number", range(DRAWS))
def test_random_model(number):
    case = draw(SEED, number)
    print(f"seed {SEED}, draw {number}: {', '.join(case.what)}")
    cycles = check(case)
    assert cycles or case.what[0] == "small4", "only the small scratchpad may be too small"


@pytest.mark.parametrize("number, keys", [(2, 7), (3, 30), (5, 1), (5, None)])
def test_pruned_models_with_hard_attention(number, keys):
    case = draw_pruned(SEED, number, "tiny4", keys)
    print(f"seed {SEED}, pruned model {number}: {', '.join(case.what)}")
    assert check(case)


def test_draws_are_of_all_kinds():
    """Among not too many draws is nearly everything that there is; the same seed gives the same draws."""
    seen = {what for number in range(DRAWS) for what in draw(SEED, number).what}
    assert {"tiny4", "small4", "edge8", "edge16", "random integers", "static", "data", "key mask"} <= seen
    assert {"sentences", "ranges", "wide V", "int8 V", "hard attention"} <= seen
    assert len(seen & set(CLASSES)) >= 3
    first, again = (draw(SEED, 3) for _ in range(2))
    assert first.what == again.what
    assert (first.runs[0][0] == again.runs[0][0]).all()
