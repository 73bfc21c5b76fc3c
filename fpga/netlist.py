"""Synthesis: from Verilog to a netlist of the device's cells, and the cells by component."""

import json
import re
from collections import Counter

__all__ = ["borders", "count_cells", "netlist_cells", "synthesis_script"]

COUNTED = {
    "LUT4": {"lut4": 1},
    "CCU2C": {"lut4": 2},  # a carry cell is two LUT4
    "TRELLIS_FF": {"ff": 1},
    "DP16KD": {"block_ram": 1},
    "PDPW16KD": {"block_ram": 1},
    "MULT18X18D": {"dsp": 1},
    "TRELLIS_DPR16X4": {"lut_ram": 1},
}


def borders(verilog, top):
    """Modules one level below the harness' component `top`, by the names Amaranth gives them.

    Returns a dict from the path below `top` to the Verilog module's name.
    """
    names = re.findall(r"^module \\?([^\s(]+)", verilog, re.MULTILINE)
    prefix = f"{top}.component."
    return {
        name[len(prefix) :]: name
        for name in names
        if name.startswith(prefix) and "." not in name[len(prefix) :]
    }


def synthesis_script(*, source, top, modules, netlist):
    """A Yosys script that maps `source` to ECP5 cells with the borders of `modules` intact, and that of
    the harness' component.

    Everything below such a module is flattened into it. Its border is dissolved only when all logic
    is mapped, so that each cell of the netlist that is placed and routed belongs to one component:
    the figures by component add up to the whole.
    """
    keep = [f"setattr -mod -set keep_hierarchy 1 \\{name}" for name in [f"{top}.component", *modules]]
    return "\n".join(
        [
            f"read_verilog {source}",
            *keep,
            f"synth_ecp5 -top {top}",
            "setattr -mod -unset keep_hierarchy *",
            "flatten",
            "opt_clean",
            f"write_json {netlist}",
            "",
        ]
    )


def netlist_cells(path, top):
    """(name, type) of each cell of module `top` in Yosys' JSON netlist `path`."""
    with open(path) as file:
        cells = json.load(file)["modules"][top]["cells"]
    return [(name, cell["type"]) for name, cell in cells.items()]


def _path(name):
    """A flattened cell's hierarchical name without Yosys' decorations."""
    return name.removeprefix("$flatten").replace("\\", "")


def count_cells(cells, components):
    """Resources by component.

    Parameters
    ----------
    cells : list of (name, type)
    components : iterable of str
        Names of the submodules of the harness' component.

    Returns
    -------
    dict of str to Counter
        `lut4` (carry cells count two), `ff`, `block_ram`, `dsp`, `lut_ram` (16 x 4 bits) for each of
        `components`, for `(wiring)`, the component's own logic, and for `(harness)`.
    """
    counts = {name: Counter() for name in [*components, "(wiring)", "(harness)"]}
    for name, kind in cells:
        if kind not in COUNTED:
            continue
        first, *rest = _path(name).split(".")
        if first != "component":
            owner = "(harness)"
        elif len(rest) > 1 and rest[0] in counts:
            owner = rest[0]
        else:
            owner = "(wiring)"
        counts[owner].update(COUNTED[kind])
    return counts
