"""The whole accelerator in Verilator between independent AXI peers."""

import pytest

from bertha.rtl.config import preset
from bertha.sim.build import build
from bertha.sim.launch import launch
from tests.sim.programs import FAULTS

TESTS = 3 + 1 + sum(not name.endswith(("slverr", "decerr")) for name in FAULTS) + 2


@pytest.mark.parametrize("name", ["tiny4", "edge8", "edge16"])
def test_protocol(name, tmp_path):
    launch(
        build(preset(name)),
        "tests.sim.protocol_bench",
        tmp_path,
        expect=TESTS,
        timeout=900,
        environment={"PRESET": name},
        arguments=["+verilator+rand+reset+2", "+verilator+seed+11"],
    )
