"""Runs cocotb benches in a simulation."""

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import cocotb_tools.config
import find_libpython

from bertha.errors import SimulationError, ToolError
from bertha.folders import PACKAGE
from bertha.sim.toolchain import own_group

__all__ = ["Results", "launch"]


class Results:
    """What cocotb reported of a simulation.

    Attributes
    ----------
    passed, failed : list of str
        Names of the tests.
    seconds : dict of str to float
        Wall-clock time by test.
    """

    def __init__(self, file):
        self.passed, self.failed, self.seconds = [], [], {}
        for case in ElementTree.parse(file).getroot().iter("testcase"):
            name = case.get("name")
            if case.find("skipped") is None:
                broken = case.find("failure") is not None or case.find("error") is not None
                (self.failed if broken else self.passed).append(name)
                self.seconds[name] = float(case.get("time", 0))


def _environment(simulation, module, results, extra):
    library = os.environ.get("LIBPYTHON_LOC") or find_libpython.find_libpython()
    if library is None:
        raise ToolError("cocotb needs a Python with a shared library (libpython3.x.so); this one has none")
    path = [str(PACKAGE.parent), *(entry for entry in sys.path if entry)]
    return {
        **os.environ,
        "COCOTB_TOPLEVEL": simulation.toplevel,
        "COCOTB_TEST_MODULES": module,
        "TOPLEVEL_LANG": "verilog",
        "COCOTB_RESULTS_FILE": str(results),
        "COCOTB_TRUST_INERTIAL_WRITES": "1",
        "GPI_USERS": f"{library};{cocotb_tools.config.pygpi_entry_point()}",
        "PYGPI_PYTHON_BIN": sys.executable,
        "PYTHONPATH": os.pathsep.join(path),
        "PATH": os.pathsep.join([os.environ["PATH"], str(cocotb_tools.config.libs_dir)]),
        **extra,
    }


def launch(
    simulation,
    module,
    folder,
    *,
    expect,
    environment=None,
    arguments=(),
    waves=None,
    timeout=None,
    watch=None,
) -> Results:
    """Runs the cocotb tests of a Python module; the log is `simulation.log` in `folder`.

    Parameters
    ----------
    simulation : Simulation
    module : str
        Import name of the module with the tests.
    folder : Path
        Working directory of the simulation; created if needed.
    expect : int
        Tests that must run, no more and no fewer.
    environment : dict of str to str, optional
        Added to this process's.
    arguments : sequence of str
        For the simulation; Verilator takes for example `+verilator+seed+1`.
    waves : Path, optional
        FST file to write.
    timeout : float, optional
        Seconds after which the simulation is ended.
    watch : function, optional
        Called five times a second while the simulation runs.

    Returns
    -------
    Results

    Raises
    ------
    SimulationError
        If a test fails, their number is not as expected, or the simulation crashes or takes too long.
    """
    folder = Path(folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    results, log = folder / "results.xml", folder / "simulation.log"
    results.unlink(missing_ok=True)
    command = [str(simulation.cocotb), *arguments]
    if waves:
        command.append(f"+waves={Path(waves).resolve()}")
    with open(log, "w", encoding="utf-8") as output:
        environment = _environment(simulation, module, results, environment or {})
        with own_group(
            command, cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT
        ) as process:
            try:
                _wait(process, timeout, watch)
            except subprocess.TimeoutExpired:
                raise SimulationError(f"the simulation took more than {timeout} s; see {log}") from None
    if not results.exists():
        raise SimulationError(f"the simulation ended without results (exit {process.returncode}); see {log}")
    outcome = Results(results)
    if outcome.failed:
        raise SimulationError(f"{', '.join(outcome.failed)} failed; see {log}")
    if len(outcome.passed) != expect:
        raise SimulationError(f"{len(outcome.passed)} tests ran where {expect} were expected; see {log}")
    if process.returncode:
        raise SimulationError(f"the simulation exited with {process.returncode}; see {log}")
    return outcome


def _wait(process, timeout, watch):
    if watch is None:
        process.wait(timeout)
        return
    left = timeout
    while process.poll() is None:
        watch()
        try:
            process.wait(0.2)
        except subprocess.TimeoutExpired:
            if left is not None:
                left -= 0.2
                if left <= 0:
                    raise
    watch()
