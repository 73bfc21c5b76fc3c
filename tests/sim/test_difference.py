"""Where a run first differs: what was damaged is named, down to the word, whether memory, a table or the arithmetic."""

import re

import numpy as np
import pytest
from rich.console import Console

from bertha.compiler.compile import compile_layer
from bertha.golden import integer_model, units
from bertha.rtl.config import preset
from bertha.rtl.isa import Opcode
from bertha.sim import run as run_module
from bertha.sim.difference import ExpectedWrites, first_store_difference, first_write_difference
from bertha.sim.memory import Trace
from bertha.sim.options import LayerOptions
from bertha.sim.run import run_layer
from bertha.sim.writes import WRITE_PORTS, WriteLog
from tests.compiler.layers import random_inputs, random_layer

TINY = preset("tiny4")
DOORBELL = 1000
COMMAND_CYCLES = 10


def run():
    """The report of the reduced model's layer 0 on `tiny4`."""
    options = LayerOptions(model="reduced", preset="tiny4", seq=8, layer=0)
    with open("/dev/null", "w", encoding="utf-8") as nothing:
        return run_layer(options, Console(file=nothing, width=140))


@pytest.fixture
def damaged(monkeypatch):
    """Flips bits of one byte of what a LOAD of this name reads, in the memory that the simulation gets."""
    real, found = run_module.write_job, {}

    def damage(name, offset, bits):
        def write_job(folder, options, prepared, runs=None):
            job = real(folder, options, prepared, runs)
            program = prepared.runs[0].program
            command = next(command for command in program.commands if command.name == name)
            place = command.get("dram_addr") - program.window[0] + offset
            image = bytearray((folder / "image0.bin").read_bytes())
            found.update(command=program.commands.index(command), before=image[place])
            image[place] ^= bits
            (folder / "image0.bin").write_bytes(image)
            return job

        monkeypatch.setattr(run_module, "write_job", write_job)
        return found

    return damage


def test_a_byte_of_a_weight(damaged):
    """Word 9, row 1 of a weight panel: line 4 has words 8 and 9, of four bytes each."""
    facts = damaged("layer0.weights.intermediate.panel3", 4 * 8 + 5, 0x40)
    report = run()
    found = report.difference
    assert not report.bit_exact
    assert (found["operation"], found["layer"], found["head"]) == (
        "layer0.weights.intermediate.panel3",
        0,
        None,
    )
    assert (found["opcode"], found["command"]) == ("LOAD", facts["command"])
    assert (found["row_is"], found["row"], found["word"]) == ("lane", 1, 9)
    before = int(np.int8(np.uint8(facts["before"])))
    assert (found["expected"], found["result"]) == (before, int(np.int8(np.uint8(facts["before"] ^ 0x40))))
    assert 0 < found["first_cycle"] < found["last_cycle"] < report.cycles
    assert "first in layer 0, weights (DMA): layer0.weights.intermediate.panel3" in report.first_difference
    assert "from the doorbell (--waves records them)" in report.first_difference


def test_a_byte_of_a_table(damaged):
    """The high byte of 2^0, which every row's largest score meets."""
    facts = damaged("layer0.softmax.table", 1, 0x40)
    found = run().difference
    assert (found["operation"], found["opcode"]) == ("layer0.softmax.table", "LOAD")
    assert (found["command"], found["word"], found["row"]) == (facts["command"], 0, 1)
    assert (found["expected"], found["result"]) == (-1, -65)  # 0xff and 0xbf


def test_arithmetic_that_differs(monkeypatch):
    """An accelerator whose largest probability isn't the model's: the first softmax, its first row that has it."""
    real = units.softmax

    def softmax(*arguments, **options):
        probabilities, *factors = real(*arguments, **options)
        return (np.where(probabilities == 255, 100, probabilities), *factors)

    for module in (units, integer_model):  # the interpreter's, the integer model's
        monkeypatch.setattr(module, "softmax", softmax)
    found = run().difference
    assert (found["operation"], found["layer"], found["head"]) == ("layer0.softmax.head0", 0, 0)
    assert (found["kind"], found["engine"]) == ("softmax", "vector")
    assert (found["result"], found["expected"]) == (255, 100)
    assert found["row_is"] == "token" and 0 <= found["row"] < 4
    assert 0 <= found["word"] < 8


@pytest.fixture(scope="module")
def expected():
    """What the program of a small random layer writes."""
    layer = random_layer(seed=5)
    program = compile_layer(layer, TINY, seq=10)
    x16, ranges = random_inputs(layer, 10, seed=5)
    x8 = np.zeros((10, program.x8.words), np.int8)
    return ExpectedWrites(program, program.input_pieces(x16=x16, x8=x8, ranges=ranges))


def written(expected):
    """The same as a simulation would have it: rows in the order of time, lines, and a trace."""
    count = len(expected.lines)
    commands = [expected.source(number).command for number in range(count)]
    engines = [expected.commands[command].engine.name.lower() for command in commands]
    rows = np.zeros(count, WriteLog.ROW)
    rows["line"] = expected.lines
    rows["cycle"] = DOORBELL + COMMAND_CYCLES * np.array(commands) + 5
    rows["port"] = [WRITE_PORTS.index(engine) for engine in engines]
    trace = {engine: np.zeros(len(expected.commands), Trace.ROW) for engine in (*WRITE_PORTS, "store")}
    for number, command in enumerate(expected.commands):
        start = COMMAND_CYCLES * number
        trace[command.engine.name.lower()][number] = (COMMAND_CYCLES, start, start + COMMAND_CYCLES - 1)
    return rows, expected.contents.copy(), trace


def difference(expected, rows, contents, trace):
    return first_write_difference(expected, rows, contents, trace=trace, doorbell=DOORBELL)


def test_order_matters_for_each_line_alone(expected):
    """Engines run side by side: only the writes to one line have an order."""
    rows, contents, trace = written(expected)
    assert difference(expected, rows, contents, trace) is None
    again = np.lexsort((np.arange(len(rows)), -rows["line"].astype(np.int64)))
    assert not np.array_equal(rows["line"][again], rows["line"])
    assert difference(expected, rows[again], contents[again], trace) is None


@pytest.mark.parametrize(
    "operation", ["query.head1", "scores.head0", "value.head1", "context.head0", "output_norm"]
)
def test_a_wrong_word_is_named(expected, operation):
    """Row and word of a command's first line: from a GEMM's own tile, and by what a vector command read."""
    rows, contents, trace = written(expected)
    number = next(
        number
        for number in range(len(rows))
        if expected.commands[expected.source(number).command].name == f"layer0.{operation}"
        and expected.commands[expected.source(number).command].opcode in (Opcode.GEMM, Opcode.LAYERNORM)
    )
    source = expected.source(number)
    contents[number, 2] ^= 4  # int8: lane 2 of the first word; int16: lane 1, low byte
    found = difference(expected, rows, contents, trace)
    lane = 2 if source.bits == 8 else 1
    assert (found.operation, found.command) == (f"layer0.{operation}", source.command)
    assert (found.row, found.word, found.wrong_lines) == (lane, 0, 1)
    assert found.row_is == ("dimension" if "value" in operation else "token")
    assert abs(found.result - found.expected) == 4
    start = COMMAND_CYCLES * source.command
    assert (found.first_cycle, found.last_cycle) == (max(0, start - 20), start + 25)


def test_what_is_not_written(expected):
    rows, contents, trace = written(expected)
    last = expected.source(len(rows) - 1)
    found = difference(expected, rows[:-1], contents[:-1], trace)
    assert (found.command, found.result) == (last.command, None)
    assert "nothing instead of" in str(found)


def test_what_goes_to_a_wrong_line(expected):
    """The command that was at work is named, not the one whose line was hit."""
    rows, contents, trace = written(expected)
    scores = [
        number
        for number in range(len(rows))
        if ".scores." in expected.commands[expected.source(number).command].name
    ]
    number = scores[0]
    target = next(line for line in range(TINY.lines - 1, 0, -1) if line not in expected.lines)
    rows["line"][number] = target
    found = difference(expected, rows, contents, trace)
    assert (found.command, found.line) == (expected.source(number).command, target)
    assert found.expected is None and re.search(r"-?\d+ instead of nothing", str(found))


def test_a_wrong_store(expected):
    """The scratchpad was right, what came to DRAM isn't: the STORE and its address are named."""
    store = next(command for command in expected.commands if command.opcode == Opcode.STORE)
    base = expected.base
    size = max(command.get("dram_addr") for command in expected.commands) - base + 4096
    dram = np.frombuffer(expected.read(base, size), np.uint8).copy()
    _, _, trace = written(expected)
    assert first_store_difference(expected, dram, trace=trace) is None
    dram[store.get("dram_addr") - base + 8 + 3] ^= 1
    found = first_store_difference(expected, dram, trace=trace)
    assert (found.operation, found.engine, found.address) == (store.name, "store", store.get("dram_addr") + 8)
    assert (found.row, found.word, found.wrong_lines) == (3, 2, 1)
