import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertha.quantize import rounding, scaling


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.floats(1e-12, 65535))
def test_fixed_point_is_within_half_a_multiplier_step(factor):
    mult, shift = scaling.fixed_point([factor])
    assert 2**15 <= mult[0] <= 65535 and shift[0] <= 63
    assert abs(float(mult[0]) * 2.0 ** -float(shift[0]) / factor - 1) <= 2**-16


def test_fixed_point_refuses_what_16_bits_cannot_hold():
    with pytest.raises(ValueError, match="factors must be above 0 and below 65536"):
        scaling.fixed_point([70000.0])


def test_shared_fixed_point_uses_all_bits():
    mult, shift = scaling.shared_fixed_point([0.3, -0.011], 32767)
    assert 16384 <= mult[0] <= 32767
    assert np.allclose(mult / 2.0**shift, [0.3, -0.011], rtol=1e-3)


def test_operand_scales_duplicate_the_outlier_channel():
    generator = np.random.default_rng(1)
    activations = generator.normal(size=(500, 32))
    activations[:, 7] *= 60
    chosen = scaling.operand_scales(activations, generator.normal(size=(16, 32)), 1)
    assert chosen.duplicates.tolist() == [7]
    assert chosen.scale[7] * scaling.REACH >= np.abs(activations[:, 7]).max()


def test_hidden_scales_hold_every_value():
    generator = np.random.default_rng(2)
    activated = np.maximum(generator.normal(size=(500, 40)) * generator.uniform(0.2, 4, 40), -0.16)
    kept = scaling.hidden_scales(activated, generator.normal(size=(8, 40)), 3)
    reach = np.where(kept.residue, 254, 127) * kept.operand.scale
    assert kept.residue.sum() == 3
    assert np.all(activated.max(axis=0) - kept.offset <= reach)
    assert np.all(activated.min(axis=0) - kept.offset >= -reach - kept.operand.scale)


def test_rounding_against_the_activations_beats_rounding_each_weight():
    generator = np.random.default_rng(3)
    activations = np.round(generator.normal(size=(600, 24)) @ generator.normal(size=(24, 24)) * 20)
    weight = generator.normal(size=(10, 24))
    target = activations @ weight.T + 3
    result = rounding.round_weights(weight=weight, activations=activations, target=target)
    nearest = np.round(weight / result.scale[:, None]) * result.scale[:, None]
    best = activations @ (result.weight * result.scale[:, None]).T + result.bias - target
    plain = activations @ nearest.T + 3 - target
    assert np.square(best).mean() < 0.7 * np.square(plain).mean()
