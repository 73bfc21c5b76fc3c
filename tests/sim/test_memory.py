"""The memory that simulations use, against an independent AXI manager (cocotbext-axi) and bare signals."""

from bertha.rtl.config import preset
from bertha.sim.build import build
from bertha.sim.launch import launch

TESTS = 6 + 1 + 2 + 1 + 4 + 4 + 1 + 2 + 1 + 2 + 1 + 5 + 3 + 12 + 19 + 3 + 6 + 1


def test_memory(tmp_path):
    simulation = build(preset("edge8"), toplevel="axi_memory")
    launch(simulation, "tests.sim.memory_bench", tmp_path, expect=TESTS, timeout=300)
