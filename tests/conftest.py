"""What several tests of the golden tiers share; loading and quantising happen once."""

import os

import pytest

# Tests run side by side: BLAS threads that wait for one another cost more than they bring.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

from bertha.models.encoder import load_model  # noqa: E402
from bertha.quantize.quantizer import Settings, quantize_layer  # noqa: E402
from tests.coverage_pause import pause_in_simulations  # noqa: E402
from tests.no_skips import (  # noqa: E402, F401 (pytest finds its hooks here)
    pytest_collectreport,
    pytest_runtest_logreport,
    pytest_sessionfinish,
    pytest_terminal_summary,
)

pause_in_simulations()


@pytest.fixture(scope="session")
def minilm():
    return load_model("minilm")


@pytest.fixture(scope="session")
def minilm_layer(minilm):
    return quantize_layer(minilm, 0)


@pytest.fixture(scope="session")
def reduced():
    return load_model("reduced")


@pytest.fixture(scope="session")
def reduced_layer(reduced):
    return quantize_layer(reduced, 0, Settings(calibration=40, length=32))
