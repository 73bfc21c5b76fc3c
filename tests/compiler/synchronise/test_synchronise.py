import random

import numpy as np
import pytest

from bertha.compiler.check.check import check
from bertha.compiler.compile import compile_layer
from bertha.compiler.interpret import Interpreter, interpret
from bertha.compiler.program import Command, Program
from bertha.compiler.synchronise import synchronise as sync
from bertha.golden.integer_model import run_layer
from bertha.rtl.config import preset
from bertha.rtl.isa import Opcode, Statistics, decode
from tests.compiler.layers import random_inputs, random_layer
from tests.compiler.shuffle import run_shuffled

TINY = preset("tiny4")
SIZE = 4096


def synchronised(*commands, config=TINY):
    commands = [
        Command(opcode=opcode, fields=dict(fields), name=f"step{number}")
        for number, (opcode, fields) in enumerate(commands)
    ]
    result = sync.synchronise(commands, config, dram_base=0, dram_end=SIZE)
    check(
        Program(
            config=config,
            commands=result,
            pieces=[(0, bytes(SIZE))],
            program_address=0,
            window=(0, SIZE),
            scratch=[(0, SIZE)],
        )
    )
    return result


def load(line, lines=32):
    return Opcode.LOAD, {"dram_addr": 0, "scratchpad_addr": line, "lines": lines, "rows": 1}


def store(line, lines, address=2048):
    return Opcode.STORE, {"dram_addr": address, "scratchpad_addr": line, "lines": lines, "rows": 1}


def gemm(**fields):
    return Opcode.GEMM, {"a_addr": 0, "b_addr": 8, "c_addr": 100, "k": 8, "count": 1, "columns": 4, **fields}


def names(commands):
    return [command.opcode.name for command in commands]


def test_what_is_independent_stays_so():
    commands = synchronised(load(0), load(200), gemm(), store(200, 8))
    assert [bool(c.get("wait0") or c.get("wait1")) for c in commands] == [False, False, True, True]


def test_tiles_wait_one_by_one():
    tiles = {"count": 3, "out16": 1, "c_stride": 4}
    commands = synchronised(load(0), gemm(**tiles), gemm(**tiles, a_addr=100, a_stride=4, c_addr=200))
    assert names(commands) == ["LOAD", "GEMM", "GEMM"]
    assert commands[1].get("post1_each") and commands[2].get("wait1_each")


def test_tiles_that_wait_for_passes():
    """Each tile waits for another command: its row panel's LOAD."""
    tiles = gemm(a_addr=100, a_stride=4, count=3, c_addr=200, c_stride=2)
    commands = synchronised(load(8, 4), load(100, 4), load(104, 4), load(108, 4), tiles)
    assert names(commands)[-1] == "GEMM" and commands[-1].get("wait1_each")


def test_a_gemm_is_split_where_tiles_wait_unevenly():
    """Only its last tile reads what the second LOAD brings."""
    tiles = gemm(a_addr=0, b_addr=12, a_stride=16, count=3, c_addr=200, c_stride=2)
    commands = synchronised(load(0), load(32, 4), tiles)
    assert [c.get("count") for c in commands if c.opcode == Opcode.GEMM] == [2, 1]


def test_later_waits_that_are_implied_are_left_out():
    commands = synchronised(load(0), gemm(), store(100, 2), load(0), gemm(c_addr=120))
    # The second LOAD waits for the GEMM alone, which had waited for the first one.
    assert not commands[3].get("wait1")


def test_too_few_semaphores():
    with pytest.raises(ValueError, match="the program needs 3 semaphores, the configuration has 2"):
        synchronised(load(0), gemm(), store(100, 2), load(100), config=TINY.replace(semaphores=2))


def test_barriers_where_nothing_can_be_waited_for(monkeypatch):
    monkeypatch.setattr(sync._Pass, "_find", lambda *_: None)
    layer = random_layer(seed=3, head_dim=4, ffn=10)
    program = compile_layer(layer, TINY, seq=6)
    assert any(command.opcode == Opcode.BARRIER for command in program.commands)
    x16, _ = random_inputs(layer, 6, seed=0)
    expected = run_layer(layer, x16)
    assert np.array_equal(interpret(program, x16=x16, x8=expected["x8"]), expected["output16"])


LINES = 128  # of the scratchpad, that random programs use
OUTPUT = 2048  # where they store all of it in the end


def random_command(chance):
    """A command that is legal by itself, on a few lines that many others use too."""
    line = chance.randrange(0, LINES - 24)
    other = chance.randrange(0, LINES - 24)
    kind = chance.choice(["load", "store", "gemm", "gemm", "softmax", "factors", "ranges"])
    if kind in ("load", "store"):
        opcode = Opcode.LOAD if kind == "load" else Opcode.STORE
        address = 8 * chance.randrange(0, 200)
        return opcode, {"dram_addr": address, "scratchpad_addr": line, "lines": 8, "rows": 1}
    if kind == "softmax":
        if abs(line - other) <= 2:
            return random_command(chance)
        slot = chance.randrange(4)
        return Opcode.SOFTMAX, {"src_addr": line, "dst8_addr": other, "words": 2, "slot": slot}
    if kind == "factors":
        return Opcode.FACTORS, {"src_addr": line, "slot": chance.randrange(4)}
    if kind == "ranges":
        return Opcode.RANGES, {"src_addr": line, "slot": chance.randrange(4)}
    count = chance.randint(1, 3)
    operand = chance.randrange(0, LINES - 12)
    clear = line + 4 * count + 4
    if operand < clear and line < operand + 12:  # no tile may read what another tile of its command writes
        return random_command(chance)
    return gemm(
        k=4,
        a_addr=operand,
        a_stride=chance.choice([0, 2]),
        b_addr=operand + 8,
        c_addr=line,
        c_stride=4,
        count=count,
        out16=1,
        mult=1,
        shift=chance.randint(0, 8),
        row_factor=chance.randint(0, 1),
        ranges=chance.randint(0, 1),
        first_key=chance.choice([0, 100, 65530]),
        key_step=chance.choice([4, 65532]),
        wide=chance.randint(0, 2),
        low_offset=2,
        statistics=Statistics.MAX,
        statistics_init=chance.randint(0, 1),
        slot=chance.randrange(2),
        slot_step=1,
    )


@pytest.mark.parametrize("seed", range(25))
def test_random_programs_keep_their_meaning(seed):
    """Synchronised, the checker accepts them, and any order of the engines gives what program order gives."""
    chance = random.Random(seed)
    print(f"seed {seed}")
    preparation = [
        load(0, LINES),
        *[(Opcode.FACTORS, {"src_addr": 0, "slot": slot}) for slot in range(4)],
        *[(Opcode.RANGES, {"src_addr": 0, "slot": slot}) for slot in range(4)],
        (Opcode.TABLE, {"src_addr": 0}),
        gemm(c_addr=96, statistics=Statistics.MAX, statistics_init=1, slot_step=1, count=4, out16=1),
    ]
    preparation[-1][1]["c_stride"] = 4
    listed = [*preparation, *[random_command(chance) for _ in range(120)], store(0, LINES, OUTPUT)]
    content = bytes(chance.randrange(256) for _ in range(SIZE))
    commands = [
        Command(opcode=opcode, fields=dict(fields), name=f"step{number}")
        for number, (opcode, fields) in enumerate(listed)
    ]
    commands = sync.synchronise(commands, TINY, dram_base=0, dram_end=SIZE)
    program = Program(
        config=TINY,
        commands=commands,
        pieces=[(0, content)],
        program_address=0,
        window=(0, SIZE),
        scratch=[(0, SIZE)],
    )
    check(program)
    machine = Interpreter(TINY, window=(0, SIZE))
    machine.write(0, content)
    for opcode, fields in listed:
        whole = Command(opcode=opcode, fields=fields, name="")
        for tile in range(whole.tiles):
            machine.execute(*decode(whole.encode()), tile)
    expected = machine.read(0, SIZE)
    for shuffle in range(3):
        assert run_shuffled(program, [], seed=shuffle).read(0, SIZE) == expected
