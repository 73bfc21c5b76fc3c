import numpy as np
import pytest

from bertha.quantize.balancing import Channels, balanced_scales, duplicated_scales


def data(seed, loud=40.0):
    """Activations [tokens, channels] and weights [out, channels], one channel `loud` times as large."""
    generator = np.random.default_rng(seed)
    values = generator.normal(size=(2000, 48)) * generator.uniform(0.3, 3, 48)
    values[:, 5] *= loud
    return values, generator.normal(size=(64, 48)) * generator.uniform(0.3, 3, 48)


def real_error(values, weight, scale, reach=127):
    """What rounding both to nearest costs, over the exact results' energy."""
    steps = np.abs(weight * scale).max(axis=1, keepdims=True) / 127
    rounded = np.round(weight * scale / steps) * steps
    activations = np.clip(np.round(values / scale), -reach, reach)
    exact = values @ weight.T
    return np.square(activations @ rounded.T - exact).sum() / np.square(exact).sum()


@pytest.mark.parametrize("seed", range(4))
def test_balanced_scales_cost_less_than_those_that_hold_the_largest_value(seed):
    values, weight = data(seed)
    channels = Channels.of(values)
    found = balanced_scales(channels, weight, 127)
    assert real_error(values, weight, found) < 0.8 * real_error(values, weight, channels.peak / 127)


def test_no_scale_is_finer_than_the_finest():
    values, weight = data(0)
    assert balanced_scales(Channels.of(values), weight, 127, finest=0.05).min() >= 0.05 * (1 - 1e-6)


def test_wide_operands_leave_precision_to_the_weights():
    values, weight = data(1)
    found = balanced_scales(Channels.of(values), weight, 32639)
    assert np.abs(values / found).max() < 32639
    rows = np.sort(np.abs(weight * found), axis=1)
    assert np.median(rows[:, -1] / rows[:, -8]) < 3  # no column takes a row's range for itself


def test_what_a_few_tokens_have_is_cut_off_if_that_gains_enough():
    values, weight = data(2, loud=1.0)
    values[0, 9] = 400.0
    few = np.where(np.arange(len(values)) == 0, 1e-7, 1.0)
    found = balanced_scales(Channels.of(values, few), weight, 127)
    assert found[9] * 127 < 400 / 2


def test_the_loud_channel_is_duplicated():
    values, weight = data(3)
    scale, flags = duplicated_scales(Channels.of(values), weight, 1, (127, 254))
    assert np.flatnonzero(flags).tolist() == [5]
    assert real_error(values, weight, scale, np.where(flags, 254, 127)) < real_error(
        values, weight, balanced_scales(Channels.of(values), weight, 127)
    )
    assert duplicated_scales(Channels.of(values), weight, 100, (127, 254))[1].all()
