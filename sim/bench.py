"""Speed of the simulation: the same program on the same Verilated model, under cocotb and in a bare C++ loop."""

import json
import subprocess

from bertha.errors import SimulationError, UserError
from bertha.rtl.registers import offset_of
from bertha.sim.build import build
from bertha.sim.job import Job, read_outcome
from bertha.sim.launch import launch
from bertha.sim.options import run_name
from bertha.sim.prepare import prepare, read_texts, run_folder, write_job

__all__ = ["bench"]


def _register_writes(job):
    """What the driver writes to start a program."""
    start, end = job.window
    values = [
        ("program_addr", job.program_address & 0xFFFF_FFFF),
        ("program_addr_high", job.program_address >> 32),
        ("program_length", job.commands),
        ("window_base", start & 0xFFFF_FFFF),
        ("window_base_high", start >> 32),
        ("window_limit", end & 0xFFFF_FFFF),
        ("window_limit_high", end >> 32),
        ("irq_enable", 1),
        ("control", 1),
    ]
    return [f"{offset_of(name):#x}={value:#x}" for name, value in values]


def _write_started_image(folder, job):
    """The memory as it is when the first sequence starts, as a file for the bare loop."""
    image = Job.image(folder)
    for address, content in Job.input_pieces(folder, 0):
        image[address - job.window[0] : address - job.window[0] + len(content)] = content
    file = folder / "started.bin"
    image.tofile(file)
    return file


def _run_raw(simulation, job, image):
    """Cycles and seconds of the bare C++ loop."""
    command = [
        str(simulation.raw),
        "--image",
        str(image),
        "--base",
        str(job.window[0]),
        "--latency",
        str(job.latency),
        "--bandwidth",
        str(job.bandwidth),
        "--limit",
        str(job.timeout),
    ]
    for write in _register_writes(job):
        command += ["--write", write]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise SimulationError(f"the bare simulation failed: {result.stderr.strip()}")
    return json.loads(result.stdout)


def bench(options, console, *, rounds) -> None:
    """Measures both in turn, several times, and prints their speeds; the last line is the ratio.

    Parameters
    ----------
    options : LayerOptions
        The program to run.
    console : rich.console.Console
    rounds : int

    Raises
    ------
    UserError
        If an option can't be used.
    """
    if options.waves:
        raise UserError("waves must be off to measure the simulation's speed, not on")
    if rounds < 1:
        raise UserError(f"rounds must be at least 1, not {rounds}")

    def notify(what):
        console.print(f"{what} ...", style="dim", highlight=False, markup=False)

    texts = read_texts(options)
    raw, cocotb = [], []
    with run_folder(f"bench-{run_name(options, texts)}") as folder:
        prepared = prepare(options, texts, notify=notify)
        simulation = build(prepared.config, notify=notify)
        job = write_job(folder, options, prepared, sequences=prepared.sequences[:1])
        image = _write_started_image(folder, job)
        for number in range(rounds):
            bare = _run_raw(simulation, job, image)
            raw.append(bare["cycles"] / bare["seconds"])
            launch(simulation, "bertha.sim.program_bench", folder, expect=1)
            outcome = read_outcome(folder, 0)
            cocotb.append(outcome.cycles / outcome.seconds)
            console.print(
                f"round {number + 1}: raw C++ {raw[-1]:,.0f} cycles/s, cocotb {cocotb[-1]:,.0f} cycles/s",
                highlight=False,
            )
    # Whatever else runs on the machine only makes a run slower, so the fastest of each counts.
    console.print(f"raw C++ loop: {max(raw):,.0f} cycles/s", highlight=False)
    console.print(f"cocotb:       {max(cocotb):,.0f} cycles/s", highlight=False)
    console.print(f"cocotb/raw = {max(cocotb) / max(raw):.3f}", highlight=False)
