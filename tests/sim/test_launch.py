"""A simulation that doesn't do all it should is a failure, however it ends."""

import pytest

from bertha.errors import SimulationError
from bertha.rtl.config import preset
from bertha.sim.build import build
from bertha.sim.launch import launch


def run(tmp_path, how, *, expect=3, module="tests.sim.launch_bench", timeout=60):
    simulation = build(preset("edge8"), toplevel="axi_memory")
    return launch(simulation, module, tmp_path, expect=expect, environment={"HOW": how}, timeout=timeout)


def test_success(tmp_path):
    results = run(tmp_path, "passes")
    assert len(results.passed) == 3
    assert results.failed == []


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("fails", r"ends failed; see .*simulation\.log"),
        ("background", r"ends failed; see .*simulation\.log"),
        ("skips", "2 tests ran where 3 were expected"),
        ("crashes", r"the simulation ended without results|exited with"),
    ],
)
def test_failures(tmp_path, how, message):
    with pytest.raises(SimulationError, match=message):
        run(tmp_path, how)


def test_results_of_an_earlier_run_do_not_count(tmp_path):
    run(tmp_path, "passes")
    with pytest.raises(SimulationError):
        run(tmp_path, "crashes")


def test_too_slow(tmp_path):
    with pytest.raises(SimulationError, match="took more than 3 s"):
        run(tmp_path, "hangs", timeout=3)


def test_a_missing_module(tmp_path):
    with pytest.raises(SimulationError):
        run(tmp_path, "passes", module="tests.sim.no_such_bench")
