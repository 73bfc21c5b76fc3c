"""A program on an accelerator: checked, loaded once, run for any inputs."""

import numpy as np
import pytest

from bertha.compiler.compile import compile_model
from bertha.errors import DriverError
from bertha.golden import integer_model
from bertha.rtl.config import preset
from bertha.runtime.session import Session
from bertha.runtime.transport import complete
from bertha.sim.build import build
from bertha.sim.library import LibraryTransport
from tests.golden.models import random_model, random_sums

CONFIG = preset("tiny4")
TOKENS = 11
SEED = 4


@pytest.fixture(scope="module")
def transport():
    transport = LibraryTransport(build(CONFIG), seed=SEED)
    transport.reset()
    yield transport
    transport.close()


@pytest.fixture(scope="module")
def model():
    return random_model(seed=SEED, wide=((0, "down"),))


@pytest.fixture(scope="module")
def program(model, transport):
    program = compile_model(model, CONFIG, tokens=TOKENS)
    memory = transport.allocate(program.window[0], program.window[1] - program.window[0])
    memory.set_timing(latency=1)  # leaves the engines the least time
    return program


def test_runs_of_one_program(transport, program, model):
    session = Session(transport, program, predicted_cycles=10_000)
    complete(session.load())
    rng = np.random.default_rng(SEED)
    calls = []
    for lengths in ((11,), (3, 4), (1, 9, 1)):
        ranges = np.zeros((TOKENS, 2), dtype=np.int64)
        ends = np.cumsum(lengths)
        for length, end in zip(lengths, ends):
            ranges[end - length : end] = (end - length, end)
        x16 = random_sums(model, TOKENS, rng)
        output, counters = complete(session.run(x16, ranges, progress=calls.append))
        np.testing.assert_array_equal(output, integer_model.run_model(model, x16, ranges)["output16"])
        assert counters.commands == len(program.commands) and counters.cycles > 0


def test_another_accelerator_is_refused(transport, model):
    program = compile_model(model, preset("edge8"), tokens=TOKENS)
    with pytest.raises(DriverError, match="register array_n must be 0x8, not 0x4"):
        complete(Session(transport, program, predicted_cycles=1).load())


def test_inputs_of_another_shape_are_refused(transport, program):
    session = Session(transport, program, predicted_cycles=10_000)
    with pytest.raises(ValueError, match=r"must have the shape \[11, 24\], not \[10, 24\]"):
        complete(session.run(np.zeros((10, 24), np.int16)))
