"""Predictions of random cases are as close to the RTL as they must be; `python -m tests.sim.predicted` for many."""

import pytest

from tests.sim.predicted import CONFIGS, compare, draw

SEED = 20261201
ACCELERATORS = ("tiny4", "small4", "edge8")
CASES = 8


@pytest.mark.parametrize("number", range(CASES))
def test_predicted_cycles(number):
    case = draw(SEED, number, ACCELERATORS)
    print(f"seed {SEED}, case {number}: {case.what}")
    comparison = compare(case)
    if comparison is None:
        assert case.config == CONFIGS["small4"], "only the small scratchpad may be too small"
        return
    print(f"{comparison.measured} cycles, predicted {comparison.predicted}; {comparison.operations_off}")
    assert comparison.is_close


def test_cases_are_diverse():
    cases = [draw(SEED, number) for number in range(60)]
    assert {case.config for case in cases} == set(CONFIGS.values())
    assert min(case.tokens for case in cases) == 1 and max(case.tokens for case in cases) > 256
    assert min(case.latency for case in cases) < 40 and max(case.latency for case in cases) > 360
    assert any(case.bandwidth < 0.3 * case.config.axi_data_bytes for case in cases)
    assert any(case.ranges is not None for case in cases)
    assert draw(SEED, 3).what == cases[3].what
