"""Each integer unit against float: the errors that `docs/numerics.md` states and the tests assert."""

from dataclasses import dataclass

import numpy as np
import torch

from bertha.golden import units
from bertha.quantize import scaling

__all__ = ["UnitError", "unit_errors"]

ROWS = 256
WIDTH = 384


@dataclass(frozen=True)
class UnitError:
    """Largest and root mean square error of a unit, in `measure`."""

    unit: str
    measure: str
    largest: float
    rms: float


def unit_errors(seed=0) -> list[UnitError]:
    """Measured errors of every unit, on seeded random data of the ranges that the layers use."""
    generator = np.random.default_rng(seed)
    return [
        _requantise(generator),
        _probabilities(generator),
        _attention_row(generator),
        _layernorm(generator, deviation=2000),
        _layernorm(generator, deviation=20),
        _gelu(),
    ]


def _error(unit, measure, error):
    error = np.asarray(error, np.float64)
    return UnitError(unit, measure, float(np.abs(error).max()), float(np.sqrt(np.square(error).mean())))


def _requantise(generator):
    accumulator = generator.integers(-(2**22), 2**22, size=(ROWS, WIDTH))
    factor = generator.uniform(0.2, 1, size=WIDTH) * 2.0**-8
    mult, shift = scaling.fixed_point(factor)
    return _error(
        "requantise",
        "LSB of the int16 result",
        units.requantise(accumulator, mult, shift) - accumulator * factor,
    )


def _scores(generator):
    """int16 scores like a layer's: up to a few hundred units of 1/64 log2 from one another."""
    return np.round(generator.normal(size=(ROWS, 128)) * 200 - 3000).astype(np.int64)


def _exact_softmax(scores):
    power = 2.0 ** ((scores - scores.max(axis=-1, keepdims=True)) / 64)
    return power / power.sum(axis=-1, keepdims=True)


def _probabilities(generator):
    scores = _scores(generator)
    probabilities, mult, shift = units.softmax(scores)
    result = probabilities * (mult * 2.0**-shift)[:, None]
    return _error("softmax", "probability, after normalisation", result - _exact_softmax(scores))


def _attention_row(generator):
    scores, value = _scores(generator), generator.integers(-127, 128, size=(128, 32))
    probabilities, mult, shift = units.softmax(scores)
    context = units.requantise(probabilities @ value, mult[:, None], shift[:, None] - 4)
    return _error("softmax and P·V", "LSB of V", context / 16 - _exact_softmax(scores) @ value)


def _layernorm(generator, deviation):
    values = np.round(generator.normal(size=(ROWS, WIDTH)) * deviation + deviation / 3).astype(np.int64)
    exact = torch.nn.functional.layer_norm(torch.from_numpy(values).double(), (WIDTH,), eps=0).numpy()
    return _error(
        f"LayerNorm, deviation {deviation}",
        "standard deviations, before gamma",
        units.normalise(values, 0) / 2**units.NORMALISED_BITS - exact,
    )


def _gelu():
    scale = 32 / 32768
    base, slope = units.gelu_table(scale, scale)
    values = np.arange(-32768, 32768)
    exact = torch.nn.functional.gelu(torch.from_numpy(values * scale)).numpy()
    return _error(
        "GELU, 256 segments of 0.25", "GELU(x)", units.piecewise(values, base, slope) * scale - exact
    )
