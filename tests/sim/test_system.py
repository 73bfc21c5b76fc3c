"""The whole accelerator in Verilator, with the fast memory: products, copies, faults, resets."""

import pytest

from bertha.rtl.config import preset
from bertha.sim.build import build
from bertha.sim.launch import launch
from tests.sim.programs import FAULTS

TESTS = 1 + 6 + 4 + 1 + 1 + len(FAULTS) + 4


@pytest.mark.parametrize("name", ["tiny4", "edge8", "edge16"])
def test_system(name, tmp_path):
    launch(
        build(preset(name)),
        "tests.sim.system_bench",
        tmp_path,
        expect=TESTS,
        timeout=900,
        environment={"PRESET": name},
        # Memories and registers without a reset start at random, as in hardware.
        arguments=["+verilator+rand+reset+2", "+verilator+seed+7"],
    )
