"""The whole accelerator with the fast memory (run by test_system.py)."""

import os

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge

from bertha.errors import AcceleratorFault
from bertha.rtl.config import preset
from bertha.runtime.driver import Driver
from bertha.sim.cocotb_transport import CocotbTransport
from bertha.sim.memory import Memory, Response, Stalls, Trace
from tests.sim.programs import FAULTS, GEMM_SHAPES, copy_program, fault_program, gemm_program, random_shapes

CONFIG = preset(os.environ["PRESET"])
SEED = int(os.environ.get("SEED", "1"))
TIMEOUT = 200_000


async def start(dut):
    """A driver of an accelerator that has been reset."""
    print("seed", SEED)
    transport = CocotbTransport(dut)
    await transport.reset()
    return Driver(transport)


def load(program, **timing):
    """The program's memory."""
    memory = Memory(program.base, len(program.before))
    memory.bytes[:] = program.before
    memory.set_timing(**timing)
    return memory


async def run(driver, program):
    """Runs a program to its end."""
    return await driver.run_program(program.address, program.commands, program.window, timeout=TIMEOUT)


def check(memory, program):
    """Every byte is as it must be, and no rule of AXI was broken."""
    assert memory.bytes.tobytes() == program.after.tobytes()
    assert memory.violations == []


@cocotb.test()
async def identity(dut):
    """The registers describe the configuration."""
    driver = await start(dut)
    await driver.check_identity(CONFIG)


@cocotb.test()
@cocotb.parametrize(stalls=[0.0, 0.2, 0.6], latency=[1, 100])
async def gemms(dut, stalls, latency):
    """Products of any shape are right under any stalls of the memory."""
    driver = await start(dut)
    shapes = GEMM_SHAPES + random_shapes(np.random.default_rng(SEED), 4)
    program = gemm_program(CONFIG, shapes, seed=SEED)
    memory = load(program, latency=latency)
    memory.set_stalls(Stalls.everywhere(stalls), seed=SEED)
    await run(driver, program)
    check(memory, program)


@cocotb.test()
@cocotb.parametrize(stalls=[0.0, 0.5], bandwidth=[1.0, 1e9])
async def copies(dut, stalls, bandwidth):
    """Strided rows that end at and cross pages arrive as they were."""
    driver = await start(dut)
    program = copy_program(CONFIG, seed=SEED)
    memory = load(program, latency=20, bandwidth=bandwidth)
    memory.set_stalls(Stalls.everywhere(stalls), seed=SEED)
    await run(driver, program)
    check(memory, program)


@cocotb.test()
async def back_to_back(dut):
    """A program doesn't care what ran before it."""
    driver = await start(dut)
    generator = np.random.default_rng(SEED)
    for number in range(3):
        shapes = random_shapes(generator, 2)
        program = gemm_program(CONFIG, shapes, seed=SEED + number)
        memory = load(program, latency=10)
        await run(driver, program)
        check(memory, program)


@cocotb.test()
async def counters(dut):
    """The counters agree with what the bench sees: cycles, beats, and the trace's busy cycles."""
    driver = await start(dut)
    program = gemm_program(CONFIG, [(40, 39, 40)], seed=SEED)
    memory, trace = load(program, latency=30), Trace()
    trace.clear()
    written = memory.bytes_written
    await driver.start(program.address, program.commands, program.window)
    doorbell = driver.transport.last_write
    result = await driver.wait(timeout=TIMEOUT)
    check(memory, program)
    assert abs(result.cycles - (driver.transport.interrupted - doorbell)) <= 4
    assert result.commands == program.commands
    assert result.store_busy * CONFIG.axi_data_bytes == memory.bytes_written - written
    for engine in ("load", "store", "gemm", "vector"):
        assert trace.rows(engine)["busy"].sum() == getattr(result, f"{engine}_busy")


@cocotb.test()
@cocotb.parametrize(name=list(FAULTS))
async def faults(dut, name):
    """A fault is named, nothing that it could harm is written, and after a clear a good program runs."""
    driver = await start(dut)
    case = fault_program(CONFIG, name)
    memory = load(case.program, latency=25)
    if case.error:
        memory.add_error(*case.error, Response[name.rsplit("_", maxsplit=1)[1].upper()])
    try:
        await run(driver, case.program)
    except AcceleratorFault as fault:
        assert (fault.reason, fault.engine, fault.index) == (case.reason, case.engine, case.index)
    else:
        raise AssertionError("the program must be stopped")
    check(memory, case.program)
    assert not dut.irq.value
    await driver.clear()
    program = gemm_program(CONFIG, [(5, 6, 7)], seed=SEED)
    memory = load(program, latency=25)
    await run(driver, program)
    check(memory, program)


@cocotb.test()
@cocotb.parametrize(after=[30, 200, 600, 1500])
async def reset(dut, after):
    """A reset in the middle of a program leaves the accelerator as new."""
    driver = await start(dut)
    program = gemm_program(CONFIG, [(40, 40, 40)] * 6, seed=SEED)  # longer than any of the times
    memory = load(program, latency=40)
    await driver.start(program.address, program.commands, program.window)
    for _ in range(after):
        await RisingEdge(dut.clk)
    assert not dut.irq.value
    await driver.transport.reset()
    assert await driver.read("status") == 0
    memory.bytes[:] = program.before
    await run(driver, program)
    check(memory, program)
