"""The cycle counters against an account of their own of what passes the engines' ports (run by test_cycles.py)."""

import json
import os

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles, RisingEdge

from bertha.compiler.compile import compile_layer
from bertha.golden.integer_model import run_layer
from bertha.rtl.config import preset
from bertha.rtl.counters.classes import CycleClass
from bertha.runtime.driver import Driver
from bertha.sim.cocotb_transport import CocotbTransport
from bertha.sim.memory import Memory, Stalls
from tests.compiler.layers import random_inputs, random_layer
from tests.fuzz.generate import draw_case
from tests.sim.cycle_monitor import ENGINES, account
from tests.sim.programs import copy_program, gemm_program, random_shapes
from tests.sim.watched import VECTOR

CONFIG = preset(os.environ["PRESET"])
FIELDS = {name: tuple(place) for name, place in json.loads(os.environ["FIELDS"]).items()}
SEED = int(os.environ.get("SEED", "1"))
TIMEOUT = 400_000
STALLS = {"none": Stalls(), "some": Stalls.everywhere(0.2), "many": Stalls(0.7, 0.6, 0.5, 0.7, 0.6)}


class Bench:
    """A chip, and what is sampled of it while a program runs."""

    def __init__(self, dut):
        self._dut = dut
        self._vector = getattr(dut.bertha, VECTOR)
        self.transport = CocotbTransport(dut)
        self.driver = Driver(self.transport)
        self.samples = []

    async def sample(self):
        edge = RisingEdge(self._dut.clk)
        while True:
            await edge
            self.samples.append(int(self._vector.value))

    async def run(self, memory, address, code, window, *, snapshots=0):
        """Runs a program; its account, the counts, and the counts of snapshots that were taken meanwhile."""
        self.samples.clear()
        sampling = cocotb.start_soon(self.sample())
        await self.driver.start(address, len(code) // 64, window)
        taken = []
        for _ in range(snapshots):
            await ClockCycles(self._dut.clk, 200)
            await self.driver.snapshot()
            taken.append(await self.driver.engine_cycles())
        result = await self.driver.wait(timeout=TIMEOUT)
        counts = await self.driver.engine_cycles()
        sampling.cancel()
        assert memory.violations == []
        found = account(self.samples, FIELDS, code, CONFIG)
        assert counts.cycles == result.cycles == found.cycles
        for engine, name in ENGINES.items():
            expected = {c.name.lower(): found.classes[engine][c] for c in CycleClass}
            assert counts.classes[name] == expected, name
            assert sum(counts.classes[name].values()) == result.cycles
            assert sum(counts.array_waits[name].values()) == counts.classes["gemm"][f"semaphore_{name}"]
            roots = {c.name.lower(): found.roots[engine, c] for c in CycleClass}
            assert counts.array_waits[name] == roots, name
        for name in ("load", "store", "gemm"):
            assert counts.classes[name]["working"] == getattr(result, f"{name}_busy")
        return counts, taken


async def start(dut):
    print("seed", SEED)
    bench = Bench(dut)
    await bench.transport.reset()
    return bench


def _prepare(base, before, *, stalls, latency=20, bandwidth=1e9):
    memory = Memory(base, len(before))
    memory.bytes[:] = before
    memory.set_timing(latency=latency, bandwidth=bandwidth)
    memory.set_stalls(STALLS[stalls], seed=SEED)
    return memory


def _code(memory, address, commands):
    return memory.view(address, 64 * commands).tobytes()


@cocotb.test()
@cocotb.parametrize(stalls=list(STALLS), latency=[1, 60])
async def products_and_copies(dut, stalls, latency):
    """Loads, products and stores, all classes of waiting for the memory among them."""
    bench = await start(dut)
    shapes = random_shapes(np.random.default_rng(SEED), 4)
    for program in (gemm_program(CONFIG, shapes, seed=SEED), copy_program(CONFIG, seed=SEED, rows=3)):
        memory = _prepare(program.base, program.before, stalls=stalls, latency=latency)
        code = _code(memory, program.address, program.commands)
        counts, _ = await bench.run(memory, program.address, code, program.window)
        assert memory.bytes.tobytes() == program.after.tobytes()
        for engine, waits in (("load", "dram_read"), ("store", "dram_write")):
            assert counts.classes[engine][waits], (engine, waits)


@cocotb.test()
@cocotb.parametrize(number=list(range(8)))
async def random_programs(dut, number):
    """Random legal programs for all engines, on memories of any speed."""
    bench = await start(dut)
    random = np.random.default_rng([SEED, number])
    case = draw_case(random, CONFIG)
    memory = _prepare(
        case.base,
        case.before,
        stalls=str(random.choice(list(STALLS))),
        latency=int(random.choice([1, 10, 100])),
        bandwidth=float(random.choice([2.0, 8.0, 1e9])),
    )
    await bench.run(memory, case.address, case.code, case.window)
    assert memory.bytes.tobytes() == case.after.tobytes()


@cocotb.test()
@cocotb.parametrize(stalls=["none", "some"])
async def layer(dut, stalls):
    """A compiled layer, with snapshots while it runs: none is behind the one before, all add up."""
    bench = await start(dut)
    keys = 0 if stalls == "none" else 4
    quantised = random_layer(seed=SEED, heads=2, head_dim=8, ffn=32, attention_keys=keys)
    program = compile_layer(quantised, CONFIG, seq=9)
    x16, ranges = random_inputs(quantised, 9, seed=SEED)
    expected = run_layer(quantised, x16, ranges)
    first, end = program.window
    memory = _prepare(first, np.zeros(end - first, np.uint8), stalls=stalls, latency=40, bandwidth=8.0)
    for address, content in (*program.pieces, *program.input_pieces(x16=x16, x8=expected["x8"])):
        memory.write(address, content)
    code = _code(memory, program.program_address, len(program.commands))
    counts, taken = await bench.run(memory, program.program_address, code, program.window, snapshots=3)
    place = program.output16
    result = memory.view(place.address, place.nbytes(CONFIG.array_n)).tobytes()
    assert np.array_equal(program.unpack_output(result), expected["output16"])
    before = None
    for snapshot in (*taken, counts):
        for name, classes in snapshot.classes.items():
            assert sum(classes.values()) == snapshot.cycles
            assert before is None or all(classes[key] >= before.classes[name][key] for key in classes)
        assert before is None or snapshot.cycles > before.cycles
        before = snapshot
    # The vector engine's passes are what a layer's array waits for, when it waits for anything but data.
    assert counts.classes["gemm"]["semaphore_vector"] and counts.classes["vector"]["semaphore_gemm"]
    assert counts.array_waits["vector"]["working"]
    print(json.dumps({"classes": counts.classes, "array waits": counts.array_waits}))


@cocotb.test()
async def after_a_stop(dut):
    """A program that is stopped has its cycles counted as well, until the bus owes nothing."""
    bench = await start(dut)
    program = copy_program(CONFIG, seed=SEED)
    memory = _prepare(program.base, program.before, stalls="many", latency=60)
    await bench.driver.start(program.address, program.commands, program.window)
    await ClockCycles(dut.clk, 300)
    await bench.driver.stop()
    assert await bench.transport.wait_for_interrupt(TIMEOUT)
    counts = await bench.driver.engine_cycles()
    assert counts.cycles == await bench.driver.read_wide("cycles") > 300
    assert all(sum(classes.values()) == counts.cycles for classes in counts.classes.values())
    assert memory.violations == []
    await bench.driver.write("irq_status", 1)
    await bench.driver.clear()
    # The next program begins at zero.
    program = gemm_program(CONFIG, [(3, 4, 5)], seed=SEED)
    memory = _prepare(program.base, program.before, stalls="none")
    code = _code(memory, program.address, program.commands)
    await bench.run(memory, program.address, code, program.window)
