"""The whole accelerator on memories that do all that AXI allows, and on some that do what it doesn't."""

import numpy as np
import pytest

from bertha.errors import AcceleratorFault
from bertha.rtl.config import preset
from bertha.rtl.isa import COMMAND_BYTES, Engine, FaultReason
from bertha.runtime.driver import Driver
from bertha.runtime.transport import complete
from bertha.sim.build import build
from bertha.sim.library import LibraryTransport
from bertha.sim.memory import AddressWaits, Manners, Misdeed, Response, Stalls
from tests.sim.programs import copy_program, fault_program, gemm_program, loads_program, random_shapes

SEED = 5
TIMEOUT = 400_000  # cycles
CONFIGS = {
    # Two beats a line, and a beat a line with bursts that are shorter than a page.
    "tiny4-narrow": preset("tiny4").replace(axi_data_bits=32),
    "edge8-wide": preset("edge8").replace(axi_data_bits=128, burst_beats=16, outstanding_bursts=3),
}
_chips = {}


class Chip:
    """A simulated accelerator that runs one program after the other, and must be exact on every good one."""

    def __init__(self, config):
        self.config = config
        self.transport = LibraryTransport(build(config), seed=SEED)
        self.driver = Driver(self.transport)
        self.transport.reset()

    def load(self, program, **timing):
        """The program's memory."""
        memory = self.transport.allocate(program.base, len(program.before))
        memory.bytes[:] = program.before
        memory.set_timing(**timing)
        return memory

    def run(self, program):
        """Runs a program to its end; an AcceleratorFault says why it was stopped."""
        return complete(
            self.driver.run_program(program.address, program.commands, program.window, timeout=TIMEOUT)
        )

    def fault(self, program):
        """Runs a program that must be stopped, clears the error, and gives (reason, engine, index)."""
        with pytest.raises(AcceleratorFault) as caught:
            self.run(program)
        complete(self.driver.clear())
        return caught.value.reason, caught.value.engine, caught.value.index

    def run_good(self, seed=SEED):
        """Runs a good program on a good memory."""
        program = gemm_program(self.config, [(5, 6, 7)], seed=seed)
        memory = self.load(program, latency=25)
        self.run(program)
        check(memory, program)


def check(memory, program):
    """Every byte is as it must be, and the accelerator broke no rule of AXI."""
    assert memory.bytes.tobytes() == program.after.tobytes()
    assert memory.violations == []


@pytest.fixture(params=CONFIGS)
def chip(request):
    print("seed", SEED)
    name = request.param
    if name not in _chips:
        _chips[name] = Chip(CONFIGS[name])
    return _chips[name]


def draw_timing(generator):
    """Random latency, bandwidth, bursts in flight; and stalls."""
    timing = {
        "latency": int(generator.choice([1, 2, 17, 120])),
        "write_latency": int(generator.choice([1, 5, 60])),
        "bandwidth": float(generator.choice([1e9, 1e9, 3.0])),
        "outstanding": int(generator.choice([1, 2, 64])),
    }
    return timing, Stalls(*(float(odds) for odds in generator.choice([0.0, 0.0, 0.3, 0.7], 5)))


@pytest.mark.parametrize("silence", [0.0, 0.02])
@pytest.mark.parametrize("early_beats", [0, 3, 256])
@pytest.mark.parametrize("address_waits", AddressWaits)
@pytest.mark.parametrize("interleave", [False, True])
def test_legal_memories(chip, interleave, address_waits, early_beats, silence):
    """Results are exact whatever an interconnect may do, at any speed."""
    if address_waits == AddressWaits.DATA_TAKEN:
        early_beats = 256 + early_beats
    manners = Manners(interleave, address_waits, early_beats, silence, silence_cycles=400)
    seed = [SEED, int(interleave), int(address_waits), early_beats, int(silence > 0)]
    generator = np.random.default_rng(seed)
    for number in range(2):
        timing, stalls = draw_timing(generator)
        print(seed, number, timing, stalls)
        program_seed = int(generator.integers(1 << 30))
        if number:
            program = copy_program(chip.config, seed=program_seed, rows=2)
        else:
            program = gemm_program(chip.config, random_shapes(generator, 2), seed=program_seed)
        memory = chip.load(program, **timing)
        memory.set_stalls(stalls, seed=program_seed)
        memory.set_manners(manners)
        chip.run(program)
        check(memory, program)


@pytest.mark.parametrize("name", ["load", "fetch"])
@pytest.mark.parametrize("misdeed", [Misdeed.LAST_EARLY, Misdeed.LAST_LATE, Misdeed.LAST_TWICE])
def test_a_read_burst_of_the_wrong_length(chip, name, misdeed):
    """It is a fault of the command whose data it is; nothing follows, and the next program is exact."""
    case = fault_program(chip.config, f"{name}_slverr")
    memory = chip.load(case.program, latency=25)
    memory.add_misdeed(misdeed, *case.error, beats=1)
    assert chip.fault(case.program) == (FaultReason.AXI_PROTOCOL, case.engine, case.index)
    check(memory, case.program)
    chip.run_good()


def test_read_bursts_of_the_wrong_length_while_others_are_on_the_bus(chip):
    """Random bursts of loads and of the fetch end early or late, at any beat, under any legal memory."""
    generator = np.random.default_rng(SEED)
    beat = chip.config.axi_data_bytes
    for number in range(24):
        program, places = loads_program(chip.config, seed=[SEED, number])
        timing, stalls = draw_timing(generator)
        memory = chip.load(program, **timing)
        memory.set_stalls(stalls, seed=number)
        memory.set_manners(Manners(interleave=bool(number % 3), silence=0.005, silence_cycles=100))
        index = int(generator.integers(len(places)))
        fetched = bool(number % 4 == 0)
        place, size = (program.address + index * COMMAND_BYTES, COMMAND_BYTES) if fetched else places[index]
        place += int(generator.integers(size // beat)) * beat
        misdeed = Misdeed.LAST_EARLY if number % 2 else Misdeed.LAST_LATE
        beats = int(generator.integers(1, 4 if number % 3 else 200))
        print(number, timing, stalls, index, fetched, misdeed, beats)
        memory.add_misdeed(misdeed, place, place + beat, beats=beats)
        engine = Engine.SEQUENCER if fetched else Engine.LOAD
        if misdeed == Misdeed.LAST_EARLY and _is_one_beat_burst(chip.config, place, places, index, fetched):
            continue  # nothing to cut off
        assert chip.fault(program) == (FaultReason.AXI_PROTOCOL, engine, index)
        check(memory, program)
        chip.run_good(seed=number)


def _is_one_beat_burst(config, place, places, index, fetched):
    """Whether the burst with the beat at `place` is a single beat: what a page's end leaves of a load."""
    if fetched:
        return False
    start, size = places[index]
    longest = config.burst_beats * config.axi_data_bytes
    while True:
        end = min(start + longest, start // 4096 * 4096 + 4096, places[index][0] + size)
        if start <= place < end:
            return end - start == config.axi_data_bytes
        start = end


@pytest.mark.parametrize("response", [Response.SLVERR, Response.DECERR, Response.EXOKAY])
def test_bad_beats_in_the_middle_while_the_fetcher_streams(chip, response):
    """A beat in the middle of a line and of a burst, of a load or of the program."""
    generator = np.random.default_rng([SEED, int(response)])
    reason = {
        Response.SLVERR: FaultReason.AXI_SLVERR,
        Response.DECERR: FaultReason.AXI_DECERR,
        Response.EXOKAY: FaultReason.AXI_PROTOCOL,
    }[response]
    beat = chip.config.axi_data_bytes
    for number in range(10):
        program, places = loads_program(chip.config, seed=[SEED, number])
        timing, stalls = draw_timing(generator)
        memory = chip.load(program, **timing)
        memory.set_stalls(stalls, seed=number)
        memory.set_manners(Manners(interleave=True))
        index = int(generator.integers(1, len(places) - 1))
        if number % 3 == 0:
            place, engine = program.address + index * COMMAND_BYTES + beat, Engine.SEQUENCER
        else:
            place, engine = places[index][0] + chip.config.line_bytes * 2 - beat, Engine.LOAD
        memory.add_error(place, place + beat, response)
        assert chip.fault(program) == (reason, engine, index)
        check(memory, program)
        chip.run_good(seed=number)


@pytest.mark.parametrize("response", [Response.OKAY, Response.SLVERR, Response.DECERR])
@pytest.mark.parametrize("latency", [1, 60])
def test_a_response_before_the_last_data(chip, response, latency):
    """As an interconnect's default subordinate may give: a fault of the store, with the response's reason."""
    case = fault_program(chip.config, "store_slverr")
    memory = chip.load(case.program, latency=25, write_latency=latency)
    memory.set_stalls(Stalls(w=0.98), seed=SEED)  # the data take longer
    memory.add_misdeed(Misdeed.RESPONSE_EARLY, *case.error)
    if response != Response.OKAY:
        memory.add_error(*case.error, response)
    reason = {
        Response.OKAY: FaultReason.AXI_PROTOCOL,
        Response.SLVERR: FaultReason.AXI_SLVERR,
        Response.DECERR: FaultReason.AXI_DECERR,
    }[response]
    assert chip.fault(case.program) == (reason, Engine.STORE, case.index)
    assert memory.violations == []
    _check_outside(memory, case.program, case.error)
    chip.run_good()


def test_a_response_to_nobody(chip):
    """It stops the program: the index is that of the first command that wasn't dispatched."""
    case = fault_program(chip.config, "store_slverr")
    memory = chip.load(case.program, latency=25)
    memory.add_misdeed(Misdeed.RESPONSE_TWICE, *case.error)
    reason, engine, index = chip.fault(case.program)
    assert (reason, engine) == (FaultReason.AXI_PROTOCOL, Engine.SEQUENCER)
    assert case.index < index < case.program.commands
    _check_outside(memory, case.program, case.error)
    chip.run_good()


def test_an_exclusive_response(chip):
    """EXOKAY is no answer to a write that isn't exclusive."""
    case = fault_program(chip.config, "store_slverr")
    memory = chip.load(case.program, latency=25)
    memory.add_error(*case.error, Response.EXOKAY)
    assert chip.fault(case.program) == (FaultReason.AXI_PROTOCOL, Engine.STORE, case.index)
    check(memory, case.program)
    chip.run_good()


def _check_outside(memory, program, place):
    """Nothing but the addresses of `place` was written."""
    kept = np.ones(len(memory.bytes), bool)
    kept[place[0] - memory.base : place[1] - memory.base] = False
    assert (memory.bytes == program.after)[kept].all()


@pytest.mark.parametrize("name", ["load", "fetch", "store"])
def test_an_answer_under_another_id(chip, name):
    """It belongs to no burst: dropped, and the program is stopped. The true answer is still owed."""
    case = fault_program(chip.config, f"{name}_slverr")
    memory = chip.load(case.program, latency=25)
    memory.add_misdeed(Misdeed.OTHER_ID, *case.error)
    _stop_without_answers(chip, case.program)
    _check_outside(memory, case.program, case.error)
    chip.run_good()
    chip.transport.reset()


@pytest.mark.parametrize("name", ["load", "fetch"])
def test_a_read_burst_without_an_end(chip, name):
    """A burst is over at its RLAST: without one, that is still owed."""
    case = fault_program(chip.config, f"{name}_slverr")
    memory = chip.load(case.program, latency=25)
    memory.add_misdeed(Misdeed.LAST_MISSING, *case.error)
    _stop_without_answers(chip, case.program)
    check(memory, case.program)
    chip.run_good()
    chip.transport.reset()


def _stop_without_answers(chip, program):
    """Runs a program that is stopped, but to which the bus owes answers for ever; gives them up."""
    driver = chip.driver
    complete(driver.start(program.address, program.commands, program.window))
    chip.transport.run(3000)
    assert not chip.transport.interrupt
    assert complete(driver.read("status")) == 0b1001  # busy, and owed something
    complete(driver.write("control", 8))
    chip.transport.run(10)
    assert chip.transport.interrupt
    assert complete(driver.read("status")) == 0b0100
    assert FaultReason(complete(driver.read("error_reason"))) == FaultReason.AXI_PROTOCOL
    complete(driver.write("irq_status", 1))
    complete(driver.clear())
