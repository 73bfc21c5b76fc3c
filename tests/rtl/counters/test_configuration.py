"""The cycle counters can be left out, and nothing of them is left then."""

import pytest

from bertha.rtl.config import PRESETS, Config, preset
from bertha.rtl.control.control import Control
from bertha.rtl.dma.load import LoadEngine
from bertha.rtl.dma.store import StoreEngine
from bertha.rtl.engine.table import ENGINES
from bertha.rtl.registers import REGISTERS, registers_of
from bertha.rtl.verilog import convert

COUNTS = {"cycle_counters", "count_select", "count", "snapshot_cycles", "snapshot_cycles_high"}


def _configs():
    return [preset("tiny4").replace(cycle_counters=value) for value in (0, 1)]


def test_registers():
    without, with_counters = (registers_of(config) for config in _configs())
    assert with_counters == REGISTERS
    assert {register.name for register in REGISTERS} - {register.name for register in without} == COUNTS


@pytest.mark.parametrize(
    "component, part",
    [
        (LoadEngine, "activity"),
        (StoreEngine, "activity"),
        (lambda config: Control(config, ENGINES), "count_select"),
    ],
    ids=["load", "store", "control"],
)
def test_verilog(component, part):
    without, with_counters = (convert(component(config), name="part") for config in _configs())
    assert part in with_counters
    assert part not in without and "snapshot" not in without


def test_presets():
    """The FPGA's has none."""
    assert [name for name in PRESETS if not PRESETS[name].cycle_counters] == ["edge8"]
    with pytest.raises(ValueError, match="cycle_counters must be from 0 to 1, not 2"):
        Config(cycle_counters=2)
