"""What nextpnr reports: utilisation, the clock's Fmax and its critical path."""

import re

__all__ = ["critical_path", "end_point", "fmax_mhz"]

# Yosys names a cell after the net it drives or reads, the cells' types and ports in between.
DECORATION = re.compile(r"_(TRELLIS_FF|LUT4|PFUMX|L6MUX21|CCU2C|TRELLIS_DPR16X4|MULT18X18D)(_.*)?$")


def end_point(cell) -> str:
    """A readable name for the register, memory or multiplier `cell`, an end of a path."""
    name = cell.removeprefix("$flatten").replace("\\", "")
    while DECORATION.search(name):
        name = DECORATION.sub("", name)
    return name.removeprefix("component.")


def _clock_path(report):
    """The clock's own critical path: from its edge to its edge."""
    for path in report["critical_paths"]:
        if path["from"] == path["to"] and path["from"].startswith("posedge"):
            return path["path"]
    raise ValueError("nextpnr's report has no path from the clock to the clock")


def fmax_mhz(report) -> float:
    """Fmax of the only clock of nextpnr's JSON report.

    Raises
    ------
    ValueError
        If the report has no clock, or more than one.
    """
    if len(report["fmax"]) != 1:
        raise ValueError(f"nextpnr's report must have one clock, not {len(report['fmax'])}")
    (clock,) = report["fmax"].values()
    return clock["achieved"]


def critical_path(report) -> dict:
    """The clock's critical path.

    Returns
    -------
    dict
        `start` and `end` (names with the port), `nanoseconds`, of these in `routing`, and `levels`:
        cells of logic between the ends.
    """
    steps = _clock_path(report)
    first, last = steps[0]["from"], steps[-1]["to"]
    return {
        "start": f"{end_point(first['cell'])}.{first['port']}",
        "end": f"{end_point(last['cell'])}.{last['port']}",
        "nanoseconds": round(sum(step["delay"] for step in steps), 2),
        "routing": round(sum(step["delay"] for step in steps if step["type"] == "routing"), 2),
        "levels": sum(step["type"] == "logic" for step in steps),
    }
