"""The cocotb bench that runs a job: `bertha.sim.job.Job` in the working directory, one run after the other."""

import time
from dataclasses import asdict
from pathlib import Path

import cocotb
import numpy as np

from bertha.errors import SimulationError
from bertha.rtl.config import Config
from bertha.runtime.driver import Driver
from bertha.sim.cocotb_transport import CocotbTransport
from bertha.sim.job import Job, Outcome, write_outcome, write_watched
from bertha.sim.memory import TRACE_ENGINES, Memory, Trace, stray_bytes
from bertha.sim.progress import PROGRESS_FILE, note_progress
from bertha.sim.writes import WriteLog

_CYCLES_APART = 4  # most that the accelerator's cycle counter may differ from the bench's


@cocotb.test()
async def run_job(dut) -> None:
    """Makes every run and writes its outcome."""
    folder = Path()
    job = Job.read(folder)
    trace = Trace()
    transport = CocotbTransport(dut)
    driver = Driver(transport)
    writes = WriteLog(Config(**job.config).line_bytes)
    memory = program = None

    for number, which in enumerate(job.runs):
        if program is not job.programs[which]:
            program = job.programs[which]
            start, end = program.window
            memory = Memory(start, end - start)
            memory.set_timing(latency=job.latency, bandwidth=job.bandwidth)
            memory.bytes[:] = Job.image(folder, which)
            if number == 0:
                await transport.reset()
                await driver.check_identity(Config(**job.config))
        for address, content in Job.input_pieces(folder, number):
            memory.write(address, content)
        expected = memory.bytes.copy()
        trace.clear()
        writes.keep(number == job.watched)
        read, written, begin = memory.bytes_read, memory.bytes_written, time.perf_counter()

        def progress(cycles, number=number):
            note_progress(folder / PROGRESS_FILE, number, cycles)

        await driver.start(program.program_address, program.commands, program.window)
        doorbell = transport.last_write
        result = await driver.wait(timeout=program.timeout, progress=progress)
        elapsed = transport.interrupted - doorbell
        seconds = time.perf_counter() - begin
        if memory.violations:
            raise SimulationError(f"AXI4 was violated: {'; '.join(memory.violations[:3])}")
        if abs(result.cycles - elapsed) > _CYCLES_APART:
            raise SimulationError(
                f"register cycles must be the {elapsed} cycles that passed, not {result.cycles}"
            )
        engine_cycles = await driver.engine_cycles()
        if engine_cycles:
            _check_sums(engine_cycles, result.cycles)
        if number == job.watched:
            write_watched(folder, *writes.read(), memory.bytes)
        rows = {engine: trace.rows(engine) for engine in TRACE_ENGINES}
        for engine_rows in rows.values():
            for name in ("first", "last"):
                engine_rows[name] -= np.where(engine_rows["busy"] > 0, doorbell, 0).astype(np.uint64)
        start, stretches = trace.stretches()
        write_outcome(
            folder,
            number,
            Outcome(
                output=memory.view(*program.output).copy(),
                trace=rows,
                cycles=elapsed,
                counters=asdict(result),
                bytes_read=memory.bytes_read - read,
                bytes_written=memory.bytes_written - written,
                stray_bytes=stray_bytes(memory, expected, [program.output, *program.scratch]),
                seconds=seconds,
                doorbell=doorbell,
                engine_cycles=asdict(engine_cycles) if engine_cycles else None,
                classes={engine: trace.command_classes(engine) for engine in TRACE_ENGINES}
                if engine_cycles
                else {},
                stretches=stretches if engine_cycles else None,
                stretches_start=start - doorbell,
            ),
        )


def _check_sums(engine_cycles, cycles):
    """Every cycle of every engine must have been counted once."""
    for engine, classes in engine_cycles.classes.items():
        total = sum(classes.values())
        if total != cycles & 0xFFFF_FFFF:
            raise SimulationError(f"the cycles of engine {engine} must add up to {cycles}, not {total}")
