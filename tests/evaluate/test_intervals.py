import numpy as np
import pytest

from bertha.evaluate.intervals import paired_interval, resampled_interval


def test_no_difference():
    assert paired_interval(np.zeros((5, 40))) == (0, 0)
    assert paired_interval(np.ones((5, 40))) == pytest.approx((1, 1))


def test_width_is_that_of_the_mean_of_items():
    differences = np.random.default_rng(1).normal(0.3, 1, (1, 400))
    low, high = paired_interval(differences)
    mean, error = differences.mean(), differences.std() / np.sqrt(400)
    assert low == pytest.approx(mean - 1.96 * error, abs=0.02)
    assert high == pytest.approx(mean + 1.96 * error, abs=0.02)


def test_seeds_count_too():
    """Items that all agree: what is unsure is the seeds' mean."""
    by_seed = np.array([0.0, 1, 0, 1, 0, 1, 0, 1])[:, None]
    low, high = paired_interval(np.repeat(by_seed, 300, axis=1))
    assert low < 0.25 and high > 0.75


def test_coverage():
    """About 95 of a hundred intervals hold the true mean."""
    generator = np.random.default_rng(2)
    held = 0
    for _ in range(100):
        low, high = paired_interval(generator.normal(0.1, 1, (1, 200)), resamples=500)
        held += low <= 0.1 <= high
    assert 88 <= held <= 99


def test_statistic_of_items():
    values = np.random.default_rng(3).normal(5, 2, 300)
    low, high = resampled_interval(lambda rows: np.median(values[rows]), 300, resamples=400)
    assert low < np.median(values) < high and high - low < 1.2
