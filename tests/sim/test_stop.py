"""Host stops and deadlocks on the whole accelerator, in Verilator."""

import pytest

from bertha.rtl.config import preset
from bertha.sim.build import build
from bertha.sim.launch import launch


@pytest.mark.parametrize("name", ["tiny4"])
def test_stop(name, tmp_path):
    launch(
        build(preset(name)),
        "tests.sim.stop_bench",
        tmp_path,
        expect=1 + 8 + 1 + 1,
        timeout=900,
        environment={"PRESET": name},
        arguments=["+verilator+rand+reset+2", "+verilator+seed+7"],
    )
