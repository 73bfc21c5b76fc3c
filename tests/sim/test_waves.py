"""Waves are FST files that an independent reader understands: names, values and times."""

import pywellen

from bertha.rtl.config import preset
from bertha.sim.build import build
from bertha.sim.cocotb_transport import CLOCK_STEPS
from bertha.sim.launch import launch


def test_waves(tmp_path):
    simulation = build(preset("edge8"), toplevel="axi_memory", waves=True)
    file = tmp_path / "waves.fst"
    launch(simulation, "tests.sim.waves_bench", tmp_path, expect=1, waves=file, timeout=60)
    waves = pywellen.Waveform(str(file))
    assert waves.file_format == "FST"
    signals = {variable.full_name: variable for variable in waves.all_vars()}
    # Each value is there from the clock edge before it on.
    expected = [(0, 0)] + [
        (CLOCK_STEPS * count - 1, count * 0x01010101 & 0xFFFF_FFFF) for count in range(1, 3000)
    ]
    assert list(signals["axi_memory.m_axi_araddr"].tv) == expected
    assert signals["axi_memory.rst"].tv[-1][1] == 1


def test_no_waves_unless_asked_for(tmp_path):
    simulation = build(preset("edge8"), toplevel="axi_memory", waves=True)
    launch(simulation, "tests.sim.waves_bench", tmp_path, expect=1, timeout=60)
    assert not list(tmp_path.glob("*.fst"))
