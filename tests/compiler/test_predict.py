from dataclasses import replace

from bertha.compiler.compile import compile_layer
from bertha.compiler.predict import Timing, predict
from bertha.compiler.program import Command, Program
from bertha.rtl.config import preset
from bertha.rtl.isa import Opcode, semaphore
from tests.compiler.layers import random_layer

CONFIG = preset("edge16")
TIMING = Timing(memory=100, dispatch=0, drain=10, semaphore=1)


def run(*commands, timing=TIMING):
    program = Program(
        config=CONFIG,
        commands=[Command(opcode=o, fields=f, name=str(n)) for n, (o, f) in enumerate(commands)],
        pieces=[],
        program_address=0,
        window=(0, 1 << 20),
    )
    for command in program.commands:
        command.dram_bytes = command.get("lines") * command.get("rows") * CONFIG.line_bytes
    return predict(program, timing)


def load(**fields):
    return Opcode.LOAD, {"lines": 200, "rows": 1, **fields}


def gemm(**fields):
    return Opcode.GEMM, {"k": 400, "count": 2, "columns": 16, **fields}


def test_transfers_take_their_beats_and_the_latency_once():
    prediction = run(load(), load())
    # Fetched after 108 cycles; 200 lines of 32 bytes are 800 beats.
    assert prediction.spans[0] == (108, 108 + 100 + 800)
    assert prediction.spans[1][1] == 108 + 100 + 1600
    assert prediction.busy == {"load": 1600}


def test_a_memory_slower_than_the_bus_stretches_transfers():
    """2 bytes a cycle on a bus of 8: a command's 64 bytes take 32 cycles, 200 lines of 32 bytes 3200."""
    prediction = run(load(), load(), timing=replace(TIMING, bandwidth=2))
    assert prediction.spans[0] == (132, 132 + 100 + 3200)
    assert prediction.spans[1][1] == 132 + 100 + 6400
    assert run(load(), load(), timing=replace(TIMING, bandwidth=8)).spans == run(load(), load()).spans


def test_fractions_of_a_byte_a_cycle():
    prediction = run(load(lines=2), timing=replace(TIMING, bandwidth=0.1))
    assert prediction.cycles == 100 + 640 + 100 + 640


def test_reads_and_writes_share_the_bandwidth():
    """Two engines that each could have the memory's bandwidth have half of it."""
    store = (Opcode.STORE, {"lines": 200, "rows": 1})
    both = run(load(), store, timing=replace(TIMING, bandwidth=2)).cycles
    assert both == 100 + 2 * (3200 + 32)
    assert run(load(), store).cycles < 100 + 2 * 800


def test_outstanding_bursts_bound_a_distant_memory():
    """8 bursts in flight, each of 512 bytes: 200 lines are 13 bursts."""
    prediction = run(load(), load(), timing=replace(TIMING, memory=10_000))
    first, second = (end for _, end in prediction.spans)
    assert second - first == 13 * 10_000 / 8


def test_tiles_follow_one_another():
    prediction = run(gemm(), gemm())
    assert prediction.cycles == 108 + 4 * 400 + 16 + TIMING.drain
    assert [cycles for cycles, _ in prediction.idle] == [108]


def test_a_small_k_takes_as_long_as_the_drain():
    assert run(gemm(k=2, count=3)).busy == {"gemm": 48}


def test_waits_are_honoured():
    prediction = run(load(post1=semaphore(0)), gemm(wait0=semaphore(0)))
    assert prediction.spans[1][0] == prediction.spans[0][1] + TIMING.semaphore


def test_full_queues_hold_up_the_dispatcher():
    commands = [gemm(count=1)] * (CONFIG.queue_depth + 2)
    last = run(*commands, load()).spans[-1][0]
    assert last >= 400  # until the first GEMM is over, there's no room for the last one


def test_a_slower_memory_takes_longer():
    program = compile_layer(random_layer(seed=0), preset("edge8"), seq=20)
    times = [predict(program, Timing(memory=latency)).cycles for latency in (10, 100, 1000)]
    assert times == sorted(set(times))
