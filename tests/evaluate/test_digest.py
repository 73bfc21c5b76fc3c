import dataclasses

import numpy as np
import pytest

from bertha.evaluate.digest import digest, float_digest, integer_digest
from bertha.models.encoder import synthetic_bert
from tests.golden.models import random_model


@pytest.mark.parametrize(
    "left, right",
    [
        (("ab", "c"), ("a", "bc")),
        ((("a",), "b"), ("a", ("b",))),
        ((1,), ("1",)),
        ((np.zeros(4, np.int8),), (np.zeros(4, np.uint8),)),
        ((np.zeros((2, 2)),), (np.zeros(4),)),
        (({"a": 1},), ({"a": 2},)),
        ((None,), ()),
    ],
)
def test_what_differs_has_another_digest(left, right):
    assert digest(*left) == digest(*left) != digest(*right)


def test_model_and_weights_count(reduced):
    model = random_model(seed=1, hidden=32)
    norm = model.layers[1].output_norm
    changed = dataclasses.replace(norm, beta=norm.beta + np.arange(32, dtype=np.int16) // 31)
    layers = (model.layers[0], dataclasses.replace(model.layers[1], output_norm=changed))
    other = dataclasses.replace(model, layers=layers)
    encoders = reduced, synthetic_bert(hidden=32, heads=2, ffn=64, layers=2, seed=1)
    digests = {integer_digest(encoder, quantised) for encoder in encoders for quantised in (model, other)}
    assert len(digests | {float_digest(encoder) for encoder in encoders}) == 6
    assert integer_digest(reduced, random_model(seed=1, hidden=32)) == integer_digest(reduced, model)
