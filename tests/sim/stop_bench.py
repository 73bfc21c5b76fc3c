"""Programs that the host stops, on the whole accelerator (run by test_stop.py)."""

import cocotb
from cocotb.triggers import First, RisingEdge, Timer

from bertha.rtl.isa import Engine, FaultReason, Opcode, encode, semaphore
from bertha.sim.cocotb_transport import CLOCK_STEPS
from tests.sim.programs import copy_program, gemm_program
from tests.sim.system_bench import CONFIG, SEED, check, load, run, start

STOP, ABANDON = 4, 8
BUSY, DONE, ERROR, OWED = 1, 2, 4, 8
LATE = 30_000


async def cycles(dut, count):
    for _ in range(count):
        await RisingEdge(dut.clk)


async def interrupt(dut, within):
    """Waits for the interrupt, so many cycles at most."""
    if not dut.irq.value:
        await First(RisingEdge(dut.irq), Timer(within * CLOCK_STEPS, "step"))
    assert dut.irq.value, f"no interrupt within {within} cycles"


async def error(driver):
    """(reason, index, engine), acknowledged; the accelerator is ready afterwards."""
    await driver.write("irq_status", 1)
    assert await driver.read("status") == ERROR
    found = [await driver.read(f"error_{name}") for name in ("reason", "index", "engine")]
    await driver.clear()
    assert await driver.read("status") == 0
    return tuple(found)


async def run_a_good_program(driver, **timing):
    """Products, all of whose bytes must be right."""
    program = gemm_program(CONFIG, [(5, 6, 7), (17, 3, 18)], seed=SEED)
    memory = load(program, **timing)
    await run(driver, program)
    check(memory, program)


async def begin(driver, commands, **timing):
    """Starts a program of these commands in a memory of its own."""
    program = gemm_program(CONFIG, [(1, 1, 1)], seed=SEED)
    memory = load(program, **timing)
    memory.write(program.window[0], b"".join(commands))
    await driver.start(program.window[0], len(commands), program.window)
    return memory


@cocotb.test()
async def a_gemm_of_billions_of_cycles(dut):
    driver = await start(dut)
    k = min(65534, 2 * CONFIG.lines)
    gemm = encode(Opcode.GEMM, k=k, count=65535, columns=1, mult=1, slot_step=0)
    await begin(driver, [encode(Opcode.BARRIER), gemm, encode(Opcode.BARRIER)], latency=20)
    await cycles(dut, 3000)
    assert await driver.read("status") == BUSY
    await driver.write("control", STOP)
    await interrupt(dut, 100)
    assert await error(driver) == (FaultReason.HOST_STOP, 2, Engine.SEQUENCER)
    await run_a_good_program(driver, latency=20)


@cocotb.test()
@cocotb.parametrize(after=[40, 250, 700, 1500], answers_come=[False, True])
async def a_memory_that_is_late(dut, after, answers_come):
    """Reads and writes are under way when it falls silent; what it owes comes never in time, or too late."""
    driver = await start(dut)
    program = copy_program(CONFIG, seed=SEED)
    memory = load(program, latency=20)
    await driver.start(program.address, program.commands, program.window)
    await cycles(dut, after)
    memory.set_timing(latency=LATE)
    await cycles(dut, 400)
    await driver.write("control", STOP)
    await cycles(dut, 500)
    assert not dut.irq.value and await driver.read("status") == BUSY | OWED
    if answers_come:
        await interrupt(dut, LATE + 5000)
    else:
        await driver.write("control", ABANDON)
        await interrupt(dut, 10)
    reason, _, engine = await error(driver)
    assert (reason, engine) == (FaultReason.HOST_STOP, Engine.SEQUENCER)
    # The memory keeps the order: old answers come before those to this program.
    await run_a_good_program(driver, latency=20)
    assert memory.violations == []


@cocotb.test()
async def a_memory_that_never_answers(dut):
    """With other IDs the next program doesn't depend on it."""
    driver = await start(dut)
    dut.external_memory.value = 1
    for name in ("awready", "wready", "bvalid", "arready", "rvalid"):
        getattr(dut, f"m_axi_{name}").value = 0
    dut.m_axi_arready.value = 1
    await begin(driver, [encode(Opcode.LOAD, lines=1, rows=1)] * 3)
    await cycles(dut, 400)
    await driver.write("control", STOP)
    await cycles(dut, 400)
    assert not dut.irq.value and await driver.read("status") == BUSY | OWED
    await driver.write("control", ABANDON)
    await interrupt(dut, 10)
    assert await error(driver) == (FaultReason.HOST_STOP, 0, Engine.SEQUENCER)
    dut.external_memory.value = 0
    await run_a_good_program(driver, latency=20)


@cocotb.test()
async def the_oldest_command_that_waits_is_named(dut):
    driver = await start(dut)
    never = {"wait0": semaphore(9)}
    table = encode(Opcode.TABLE)
    for commands, expected in (
        ([table, encode(Opcode.STORE_WAIT, **never), encode(Opcode.VECTOR_WAIT, **never)], (1, Engine.STORE)),
        ([encode(Opcode.VECTOR_WAIT, **never)], (0, Engine.VECTOR)),
        ([encode(Opcode.GEMM, k=2, count=3, columns=1, wait1=semaphore(9), wait1_each=1)], (0, Engine.GEMM)),
        (
            [
                encode(Opcode.GEMM, k=2, count=1, columns=1, post1=semaphore(9)),
                encode(Opcode.GEMM, k=2, count=3, columns=1, wait1=semaphore(9), wait1_each=1),
                encode(Opcode.STORE_WAIT, wait0=semaphore(8)),
            ],
            (1, Engine.GEMM),
        ),
    ):
        await begin(driver, commands, latency=20)
        await interrupt(dut, 2000)
        assert await error(driver) == (FaultReason.DEADLOCK, *expected)
    await run_a_good_program(driver, latency=20)
