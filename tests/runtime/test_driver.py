"""The driver on transports that block: the simulation as a library, and links that misbehave."""

import numpy as np
import pytest

from bertha.errors import AcceleratorFault, DriverError
from bertha.rtl.config import preset
from bertha.rtl.isa import Engine, FaultReason, Opcode, encode
from bertha.rtl.registers import offset_of
from bertha.runtime.driver import Driver
from bertha.runtime.transport import complete
from bertha.sim.build import build
from bertha.sim.library import LibraryTransport
from bertha.sim.memory import Response, Stalls
from tests.sim.programs import FAULTS, copy_program, fault_program, gemm_program, random_shapes

CONFIG = preset("tiny4")
SEED = 3


@pytest.fixture(scope="module")
def transport():
    transport = LibraryTransport(build(CONFIG), seed=SEED)
    transport.reset()
    yield transport
    transport.close()


def run(transport, program):
    """Puts the program into memory and runs it."""
    complete(transport.write_memory(program.base, program.before))
    return complete(
        Driver(transport).run_program(program.address, program.commands, program.window, timeout=200_000)
    )


def check(transport, program):
    memory = complete(transport.read_memory(program.base, len(program.after)))
    assert memory == program.after.tobytes()
    assert transport.memory.violations == []


def test_identity(transport):
    complete(Driver(transport).check_identity(CONFIG))
    with pytest.raises(DriverError, match="register array_n must be 0x8, not 0x4"):
        complete(Driver(transport).check_identity(preset("edge8")))


@pytest.mark.parametrize("stalls", [0.0, 0.5])
def test_programs(transport, stalls):
    """The same programs as under cocotb leave the same memory, and the counters agree with the clock."""
    shapes = random_shapes(np.random.default_rng(SEED), 3)
    for program in (gemm_program(CONFIG, shapes, seed=SEED), copy_program(CONFIG, seed=SEED)):
        memory = transport.allocate(program.base, len(program.before))
        memory.set_timing(latency=20)
        memory.set_stalls(Stalls.everywhere(stalls), seed=SEED)
        before = transport.cycle
        counters = run(transport, program)
        check(transport, program)
        assert counters.commands == program.commands
        assert 0 < counters.load_busy < counters.cycles < transport.cycle - before


@pytest.mark.parametrize("name", list(FAULTS))
def test_faults(transport, name):
    """Faults arrive decoded, and after a clear a good program runs."""
    case = fault_program(CONFIG, name)
    memory = transport.allocate(case.program.base, len(case.program.before))
    if case.error:
        memory.add_error(*case.error, Response[name.rsplit("_", maxsplit=1)[1].upper()])
    with pytest.raises(AcceleratorFault) as caught:
        run(transport, case.program)
    fault = caught.value
    assert (fault.reason, fault.engine, fault.index) == (case.reason, case.engine, case.index)
    check(transport, case.program)
    assert not transport.interrupt
    complete(Driver(transport).clear())
    good = gemm_program(CONFIG, [(5, 6, 7)], seed=SEED)
    transport.allocate(good.base, len(good.before))
    run(transport, good)
    check(transport, good)


def test_no_interrupt_in_time(transport):
    program = gemm_program(CONFIG, [(20, 20, 20)], seed=SEED)
    transport.allocate(program.base, len(program.before))
    complete(transport.write_memory(program.base, program.before))
    driver, seen = Driver(transport), []
    complete(driver.start(program.address, program.commands, program.window))
    with pytest.raises(DriverError, match="interrupt within 25 cycles"):
        complete(driver.wait(timeout=25, every=10, progress=seen.append))
    assert seen == [10, 20]
    complete(driver.wait(timeout=200_000))
    check(transport, program)


def _begin(transport, commands, latency):
    """Starts a program of these commands."""
    memory = transport.allocate(0x8000, 0x1000)
    memory.set_timing(latency=latency)
    complete(transport.write_memory(0x8000, b"".join(commands)))
    complete(Driver(transport).start(0x8000, len(commands), (0x8000, 0x9000)))


def test_stop(transport):
    """A program of billions of cycles ends where the host stops it."""
    gemm = encode(Opcode.GEMM, k=8190, count=65535, columns=1)
    _begin(transport, [encode(Opcode.BARRIER), gemm, encode(Opcode.BARRIER)], latency=1)
    transport.run(2000)
    driver = Driver(transport)
    complete(driver.stop())
    with pytest.raises(AcceleratorFault) as caught:
        complete(driver.wait(timeout=100))
    fault = caught.value
    assert (fault.reason, fault.engine, fault.index) == (FaultReason.HOST_STOP, Engine.SEQUENCER, 2)
    complete(driver.clear())


def test_a_stop_names_the_first_command_that_was_not_dispatched(transport):
    """In whatever cycle it comes, while commands are dispatched every other cycle."""
    driver, named = Driver(transport), set()
    for after in range(40, 110):
        _begin(transport, [encode(Opcode.VECTOR_WAIT)] * 40, latency=1)
        transport.run(after)
        complete(driver.stop())
        with pytest.raises(AcceleratorFault, match="HOST_STOP") as caught:
            complete(driver.wait(timeout=100))
        assert caught.value.index == complete(driver.read("commands_done"))
        named.add(caught.value.index)
        complete(driver.clear())
    assert len(named) > 5


def test_abandon(transport):
    """Answers that don't come are given up, and disturb nothing when they come after all."""
    _begin(transport, [encode(Opcode.BARRIER)] * 3, latency=5000)
    transport.run(100)
    driver = Driver(transport)
    assert not complete(driver.owes_answers())  # it runs
    complete(driver.stop())
    transport.run(100)
    assert complete(driver.owes_answers()) and not transport.interrupt
    complete(driver.abandon())
    with pytest.raises(AcceleratorFault, match="HOST_STOP at command 0"):
        complete(driver.wait(timeout=20))
    complete(driver.clear())
    good = gemm_program(CONFIG, [(5, 6, 7)], seed=SEED)
    transport.allocate(good.base, len(good.before))
    run(transport, good)
    check(transport, good)
    transport.reset()  # all answers may be given up again


class _Link:
    """A link to an accelerator that only has registers; `status` is what it says of itself."""

    def __init__(self, status):
        self.registers = {offset_of("status"): status}
        self.written = []

    async def read(self, offset):
        return self.registers.get(offset, 0)

    async def write(self, offset, value):
        self.written.append((offset, value))

    async def wait_for_interrupt(self, cycles):
        return True


def test_protocol():
    """What is written to start a program, in its order: the doorbell comes last."""
    link = _Link(status=2)
    complete(Driver(link).run_program(0x1_2345_6780, 7, (0x10, 1 << 32), timeout=10))
    names = (
        ("program_addr", 0x2345_6780),
        ("program_addr_high", 1),
        ("program_length", 7),
        ("window_base", 0x10),
        ("window_base_high", 0),
        ("window_limit", 0),
        ("window_limit_high", 1),
        ("irq_enable", 1),
        ("control", 1),
        ("irq_status", 1),
    )
    assert link.written == [(offset_of(name), value) for name, value in names]


def test_interrupt_without_an_end():
    with pytest.raises(DriverError, match="status must say done after the interrupt, not 0x1"):
        complete(Driver(_Link(status=1)).wait(timeout=10))


def test_complete_refuses_what_suspends():
    class Suspends:
        def __await__(self):
            yield

    async def suspend():
        await Suspends()

    with pytest.raises(RuntimeError, match="never suspends"):
        complete(suspend())
