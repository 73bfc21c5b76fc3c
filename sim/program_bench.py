"""The cocotb bench that runs a job: `bertha.sim.job.Job` in the working directory, one sequence after the other."""

import time
from dataclasses import asdict
from pathlib import Path

import cocotb
import numpy as np

from bertha.errors import SimulationError
from bertha.rtl.config import Config
from bertha.runtime.driver import Driver
from bertha.sim.cocotb_transport import CocotbTransport
from bertha.sim.job import Job, Outcome, write_outcome
from bertha.sim.memory import TRACE_ENGINES, Memory, Trace
from bertha.sim.progress import PROGRESS_FILE, note_progress

_CYCLES_APART = 4  # most that the accelerator's cycle counter may differ from the bench's


def stray_bytes(memory, expected, regions) -> int:
    """Bytes of the memory that differ from `expected` outside the regions, pairs of first byte and bytes."""
    different = memory.bytes != expected
    for address, nbytes in regions:
        start = address - memory.base
        different[start : start + nbytes] = False
    return int(np.count_nonzero(different))


@cocotb.test()
async def run_job(dut) -> None:
    """Runs every sequence and writes its outcome."""
    folder = Path()
    job = Job.read(folder)
    start, end = job.window
    memory, trace = Memory(start, end - start), Trace()
    memory.set_timing(latency=job.latency, bandwidth=job.bandwidth)
    memory.bytes[:] = Job.image(folder)
    transport = CocotbTransport(dut)
    driver = Driver(transport)
    await transport.reset()
    await driver.check_identity(Config(**job.config))

    for number in range(job.sequences):
        for address, content in Job.input_pieces(folder, number):
            memory.write(address, content)
        expected = memory.bytes.copy()
        trace.clear()
        read, written, begin = memory.bytes_read, memory.bytes_written, time.perf_counter()

        def progress(cycles, number=number):
            note_progress(folder / PROGRESS_FILE, number, cycles)

        await driver.start(job.program_address, job.commands, job.window)
        doorbell = transport.last_write
        result = await driver.wait(timeout=job.timeout, progress=progress)
        elapsed = transport.interrupted - doorbell
        seconds = time.perf_counter() - begin
        if memory.violations:
            raise SimulationError(f"AXI4 was violated: {'; '.join(memory.violations[:3])}")
        if abs(result.cycles - elapsed) > _CYCLES_APART:
            raise SimulationError(
                f"register cycles must be the {elapsed} cycles that passed, not {result.cycles}"
            )
        rows = {engine: trace.rows(engine) for engine in TRACE_ENGINES}
        for engine_rows in rows.values():
            for name in ("first", "last"):
                engine_rows[name] -= np.where(engine_rows["busy"] > 0, doorbell, 0).astype(np.uint64)
        write_outcome(
            folder,
            number,
            Outcome(
                output=memory.view(*job.output).copy(),
                trace=rows,
                cycles=elapsed,
                counters=asdict(result),
                bytes_read=memory.bytes_read - read,
                bytes_written=memory.bytes_written - written,
                stray_bytes=stray_bytes(memory, expected, [job.output, *job.scratch]),
                seconds=seconds,
            ),
        )
