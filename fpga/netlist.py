"""Synthesis: from Verilog to a netlist of the device's cells, and the cells by component."""

import bisect
import json
import re
from collections import Counter

__all__ = ["Owners", "count_cells", "netlist_cells", "synthesis_script"]

COUNTED = {
    "LUT4": {"lut4": 1},
    "CCU2C": {"lut4": 2},  # a carry cell is two LUT4
    "TRELLIS_FF": {"ff": 1},
    "DP16KD": {"block_ram": 1},
    "PDPW16KD": {"block_ram": 1},
    "MULT18X18D": {"dsp": 1},
    "TRELLIS_DPR16X4": {"lut_ram": 1},
}

SOURCE = "harness.v"


def synthesis_script(*, top, netlist) -> str:
    """A Yosys script that maps SOURCE, flattened, to ECP5 cells in the JSON file `netlist`."""
    return f"read_verilog {SOURCE}\nsynth_ecp5 -top {top} -json {netlist}\n"


def netlist_cells(path, top) -> list[tuple[str, str, str]]:
    """(name, type, source attribute) of each cell of module `top` in Yosys' JSON netlist `path`."""
    with open(path) as file:
        cells = json.load(file)["modules"][top]["cells"]
    return [(name, cell["type"], cell["attributes"].get("src", "")) for name, cell in cells.items()]


class Owners:
    """Which component a cell of a flattened netlist belongs to.

    Registers and multipliers still name the Verilog line that they come from, and memories their module.
    A LUT has lost both; it is owned by the component of the net that Yosys named it after: the one it
    drives, or one next to it. So LUTs at borders may be counted to the neighbour; nothing is lost.

    Parameters
    ----------
    verilog : str
        With modules named as Amaranth names them: the path below the top, joined by dots.
    depth : int
        Levels of components to tell apart below the harness' component.
    """

    def __init__(self, verilog, depth):
        self._depth = depth
        self._first_lines, self._paths = [0], [[]]
        for number, line in enumerate(verilog.splitlines(), 1):
            match = re.match(r"module \\?([^\s(]+)", line)
            if match:
                self._first_lines.append(number)
                self._paths.append(match[1].split(".")[1:])
        self._known = {tuple(path) for path in self._paths}

    @property
    def names(self) -> list[str]:
        """All owners there can be, outermost first within each component."""
        paths = [path[1:] for path in self._paths if path[:1] == ["component"]]
        names = {self._name(["component", *path]): None for path in sorted(paths) if path}
        return [*names, "(wiring)", "(harness)"]

    def _name(self, path):
        if path[:1] != ["component"]:
            return "(harness)"
        return ".".join(path[1 : 1 + self._depth]) or "(wiring)"

    def owner(self, name, source) -> str:
        """The owner of the cell called `name` with the source attribute `source`."""
        line = re.search(rf"\b{re.escape(SOURCE)}:(\d+)\.", source)
        if line:
            return self._name(self._paths[bisect.bisect(self._first_lines, int(line[1])) - 1])
        path = name.removeprefix("$flatten").replace("\\", "").split(".")
        while path and tuple(path) not in self._known:
            path.pop()
        return self._name(path)


def count_cells(cells, owners) -> dict[str, Counter]:
    """Resources by component.

    Parameters
    ----------
    cells : list of (name, type, source)
    owners : Owners

    Returns
    -------
    dict of str to Counter
        `lut4` (carry cells count two), `ff`, `block_ram`, `dsp`, `lut_ram` (16 x 4 bits) for each
        component that has any, for `(wiring)`, the reported component's own logic, and for `(harness)`.
    """
    counts = {name: Counter() for name in owners.names}
    for name, kind, source in cells:
        if kind in COUNTED:
            counts[owners.owner(name, source)].update(COUNTED[kind])
    return {name: count for name, count in counts.items() if count}
