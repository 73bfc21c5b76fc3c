"""The resource and timing report of a preset, and how it is printed."""

import contextlib
import json
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bertha.errors import UserError
from bertha.folders import BUILD
from bertha.fpga.components import component
from bertha.fpga.flow import pack, place_and_route, synthesise, totals
from bertha.locks import locked
from bertha.rtl.config import preset

__all__ = ["make_report", "over_capacity", "print_report"]

COLUMNS = {
    "lut4": "LUT4",
    "ff": "FF",
    "block_ram": "block RAM (DP16KD)",
    "dsp": "DSP (MULT18X18D)",
    "lut_ram": "LUT RAM (16x4)",
}

LARGEST_SEED = 2**31 - 1  # nextpnr's seed is an int


def _phases(console):
    """A `phase` for `bertha.fpga.flow`: shows the phase with its time while it runs, and a line after it."""

    @contextlib.contextmanager
    def phase(name):
        start = time.monotonic()
        with console.status(name) as status:

            def show(step, seconds):
                status.update(f"{name}: {step or 'starting'} ({seconds:.0f} s)")

            yield show
        console.print(f"{name}: {time.monotonic() - start:.1f} s")

    return phase


def over_capacity(used, capacity) -> list[str]:
    """What doesn't fit: a list of sentences, empty if all fits."""
    return [
        f"{name}: {used[name]} used, the device has {have}"
        for name, have in capacity.items()
        if used[name] > have
    ]


def make_report(
    *, preset_name, component_name, device, seed=1, depth=1, pack_only=False, console=None
) -> tuple[dict, Path]:
    """Synthesises, places and routes a component, and writes its `report.json`.

    Placing is left out if the mapped cells are more than the device has; `fits` tells. An older
    `report.json` is removed first.

    Parameters
    ----------
    preset_name, component_name : str
    device : Device
    seed : int
        Of the placer, from 0.
    depth : int
        Levels of components that are counted apart, from 1.
    pack_only : bool
        Stops after packing: the report has the cells of the device that are used, and no timing.
    console : rich.console.Console, optional
        For progress.

    Returns
    -------
    (dict, Path)
        The report and where it was written: build/fpga/<preset>/report.json for the whole
        accelerator, build/fpga/<preset>/<component>/report.json for a part.

    Raises
    ------
    UserError
        If there is no such preset or component, or seed or depth is out of range.
    ToolError
        If a tool is missing or fails.
    """
    if not 0 <= seed <= LARGEST_SEED:
        raise UserError(f"seed must be from 0 to {LARGEST_SEED}, not {seed}")
    if depth < 1:
        raise UserError(f"depth must be at least 1, not {depth}")
    unit = component(component_name, preset(preset_name))
    folder = BUILD / "fpga" / preset_name
    if component_name != "top":
        folder = folder / component_name
    folder.mkdir(parents=True, exist_ok=True)
    phase = _phases(console or Console(stderr=True))
    path = folder / "report.json"
    about = {"preset": preset_name, "component": component_name, "device": device.name, "seed": seed}
    with locked(folder / ".lock", "makes a report in the same folder"):
        path.unlink(missing_ok=True)
        figures = _figures(unit, folder, device, seed, depth, pack_only, phase)
        path.write_text(json.dumps(about | figures, indent=1) + "\n")
    return about | figures, path


def _figures(unit, folder, device, seed, depth, pack_only, phase):
    """The part of a report that the tools give."""
    counts = synthesise(unit, folder=folder, depth=depth, phase=phase)
    used = pack(folder=folder, device=device, phase=phase)["used"] if pack_only else totals(counts)
    figures = {
        "components": {name: {key: count[key] for key in COLUMNS} for name, count in counts.items()},
        "used": used,
        "available": device.capacity,
        "fits": not over_capacity(used, device.capacity),
    }
    if figures["fits"] and not pack_only:
        figures |= place_and_route(folder=folder, device=device, seed=seed, phase=phase)
    return figures


def print_report(report, console) -> None:
    """Prints a report as a table."""
    table = Table(
        title=f"{report['component']} of {report['preset']} on {report['device']}",
        caption="LUT4: with two for each carry cell, without LUT RAM, counted to the component of the net "
        "they are named after; a few at the borders are a neighbour's. The netlist is flattened.",
    )
    table.add_column("component")
    for title in COLUMNS.values():
        table.add_column(title, justify="right")
    for name, row in report["components"].items():
        table.add_row(name, *(str(row[key] or "") for key in COLUMNS))
    console.print(table)
    for name, have in report["available"].items():
        used = report["used"][name]
        console.print(f"{name:>14} {used:6} of {have:6} {100 * used / have:5.1f} %", highlight=False)
    if not report["fits"]:
        for sentence in over_capacity(report["used"], report["available"]):
            console.print(f"does not fit: {sentence}", highlight=False)
        return
    if "fmax_mhz" not in report:
        console.print("packed only: not placed, no timing", highlight=False)
        return
    path = report["critical_path"]
    console.print(
        f"Fmax {report['fmax_mhz']:.1f} MHz (seed {report['seed']}); critical path {path['nanoseconds']} ns, "
        f"{path['routing']} ns of it routing, {path['levels']} cells\n"
        f"  from {path['start']}\n  to   {path['end']}",
        highlight=False,
        soft_wrap=True,
    )
