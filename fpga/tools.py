"""Runs the synthesis tools: one at a time, niced, with their progress and a log each."""

import functools
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from bertha.errors import ToolError

__all__ = ["PLACE_PHASES", "SYNTHESIS_PHASES", "run_tool", "tool_version"]

SYNTHESIS_PHASES = re.compile(r"^[\d.]+ Executing (\w+(?: pass)?)")
PLACE_PHASES = re.compile(
    r"^Info: (Packing \w+|Creating initial|Running \w+ \w+ placer|Running simulated annealing"
    r"|Routing globals|Routing(?=\.\.)|Routing complete)"
)
VERSION = re.compile(r"\d+\.\d+")
ERROR = re.compile(r"^(?:[\w./]+:\d+: )?ERROR: (.*)")


def _find(tool):
    """Path of `tool`: beside the running Python, or on PATH."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    found = shutil.which(tool, path=path)
    if found is None:
        raise ToolError(f"{tool} is not installed; the extra `fpga` of this package brings it")
    return found


@functools.cache
def tool_version(tool) -> str:
    """What `tool` says its version is.

    Raises
    ------
    ToolError
        If it is not installed, fails or prints no version.
    """
    result = subprocess.run([_find(tool), "--version"], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise ToolError(f"{tool} --version failed (exit code {result.returncode})")
    # A first run of a packaged tool announces that it prepares itself, before or after what was asked for.
    lines = [line for line in (result.stdout + result.stderr).splitlines() if VERSION.search(line)]
    if not lines:
        raise ToolError(f"{tool} --version must print a version like 1.2, but printed none")
    return lines[0].strip()


def _last_match(log, pattern):
    """The first group of the last line of the file `log` that matches `pattern`, or None."""
    found = None
    if log.exists():
        with open(log, errors="replace") as lines:
            for line in lines:
                match = pattern.match(line)
                if match:
                    found = match[1]
    return found


def _errors(log):
    """The errors in the file `log`."""
    if not log.exists():
        return []
    with open(log, errors="replace") as lines:
        return [match[1].strip() for match in map(ERROR.match, lines) if match]


def run_tool(tool, arguments, *, folder, log, phases, show=lambda phase, seconds: None) -> float:
    """Runs `tool` in `folder` with a lower claim on the processor.

    Parameters
    ----------
    tool : str
        Name of the command.
    arguments : list of str
        Paths among them are relative to `folder`: the tools run in a sandbox that does not see the
        whole file system.
    folder : Path
    log : Path
        In `folder`; gets the tool's log. What it writes to its standard error goes to a file beside it.
    phases : re.Pattern
        Its first group, in the last line of the log that matches, is the tool's phase.
    show : callable
        Called every second with the phase (or None) and the seconds since the start.

    Returns
    -------
    float
        Seconds that it took.

    Raises
    ------
    ToolError
        If the tool is not installed or fails; with the first error in the log and the log's path.
    """
    # Their own log is written line by line, their output only when a buffer is full.
    command = [_find(tool), "-q", "-l", log.name, *arguments]
    if shutil.which("nice"):
        command = ["nice", "-n", "5", *command]
    start = time.monotonic()
    log, rest = folder / log.name, folder / f"{log.name}.stderr"
    log.unlink(missing_ok=True)
    with open(rest, "w") as output:
        process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=subprocess.STDOUT)
        try:
            while process.poll() is None:
                show(_last_match(log, phases), time.monotonic() - start)
                try:
                    process.wait(1)
                except subprocess.TimeoutExpired:
                    pass
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
    if process.returncode != 0:
        errors = [error for file in (log, rest) for error in _errors(file)]
        reason = errors[0] if errors else f"exit code {process.returncode}"
        raise ToolError(f"{tool} failed ({reason}); its log is {log}")
    return time.monotonic() - start
