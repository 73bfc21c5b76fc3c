"""Speed of the simulation: the same program on the same Verilated model, under cocotb and in a bare C++ loop."""

import time
from typing import NamedTuple

from bertha.errors import UserError
from bertha.runtime.driver import Driver
from bertha.runtime.transport import complete
from bertha.sim.build import build
from bertha.sim.job import Job, read_outcome
from bertha.sim.launch import launch
from bertha.sim.library import LibraryTransport
from bertha.sim.options import run_name
from bertha.sim.prepare import prepare, read_texts, run_folder, write_job

__all__ = ["Speeds", "bench", "measure"]


def _run_raw(transport, driver, folder, job, *, states=True):
    """Cycles a second of the bare C++ loop, with the first sequence; `states`: what the engines are in is recorded."""
    transport.trace.clear()
    transport.trace.record_classes(states)
    memory, program = transport.memory, job.programs[0]
    memory.bytes[:] = Job.image(folder, 0)
    for address, content in Job.input_pieces(folder, 0):
        memory.write(address, content)
    begin = time.perf_counter()
    complete(driver.start(program.program_address, program.commands, program.window))
    doorbell = transport.cycle
    complete(driver.wait(timeout=program.timeout))
    return (transport.cycle - doorbell) / (time.perf_counter() - begin)


class Speeds(NamedTuple):
    """Cycles a second: in a bare C++ loop, in one that doesn't record what the engines are in, and under cocotb."""

    raw: float
    stateless: float
    cocotb: float


def measure(options, *, rounds, notify, show=lambda line: None) -> Speeds:
    """The simulation's speeds, measured in turn; of each the fastest.

    Whatever else runs on the machine only makes a run slower.

    Parameters
    ----------
    options : LayerOptions
        The program to run.
    rounds : int
    notify : function of str
        Called with what is being done.
    show : function of str, optional
        Called with what each round gave.

    Raises
    ------
    UserError
        If an option can't be used.
    """
    if options.waves:
        raise UserError("waves must be off to measure the simulation's speed, not on")
    if rounds < 1:
        raise UserError(f"rounds must be at least 1, not {rounds}")
    texts = read_texts(options)
    raw, stateless, cocotb = [], [], []
    with run_folder(f"bench-{run_name(options, texts)}") as folder:
        prepared = prepare(options, texts, notify=notify)
        simulation = build(prepared.config, notify=notify)
        job = write_job(folder, options, prepared, runs=prepared.runs[:1])
        start, end = job.programs[0].window
        transport = LibraryTransport(simulation)
        transport.allocate(start, end - start)
        transport.memory.set_timing(latency=job.latency, bandwidth=job.bandwidth)
        transport.reset()
        driver = Driver(transport)
        for number in range(rounds):
            stateless.append(_run_raw(transport, driver, folder, job, states=False))
            raw.append(_run_raw(transport, driver, folder, job))
            launch(simulation, "bertha.sim.program_bench", folder, expect=1)
            outcome = read_outcome(folder, 0)
            cocotb.append(outcome.cycles / outcome.seconds)
            show(f"round {number + 1}: raw C++ {raw[-1]:,.0f} cycles/s, cocotb {cocotb[-1]:,.0f} cycles/s")
    return Speeds(raw=max(raw), stateless=max(stateless), cocotb=max(cocotb))


def bench(options, console, *, rounds) -> None:
    """Prints what `measure` finds, whose parameters and errors it has; the last line is a ratio."""

    def notify(what):
        console.print(f"{what} ...", style="dim", highlight=False, markup=False)

    def show(line):
        console.print(line, highlight=False)

    speeds = measure(options, rounds=rounds, notify=notify, show=show)
    show(f"raw C++ loop: {speeds.raw:,.0f} cycles/s")
    show(f"cocotb:       {speeds.cocotb:,.0f} cycles/s")
    show(f"with/without the engines' states = {speeds.raw / speeds.stateless:.3f}")
    show(f"cocotb/raw = {speeds.cocotb / speeds.raw:.3f}")
