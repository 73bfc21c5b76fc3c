"""The instruction set's declaration is consistent, and encode and decode are each other's inverse."""

import random
import subprocess

import pytest

from bertha.rtl import header, isa
from bertha.rtl.config import PRESETS
from bertha.rtl.isa import COMMANDS, Engine, Opcode
from bertha.rtl.registers import REGISTERS, offset_of


@pytest.mark.parametrize("opcode", Opcode)
def test_fields_neither_overlap_nor_leave_the_command(opcode):
    used = 0
    for field in COMMANDS[opcode]:
        bits = ((1 << field.width) - 1) << field.offset
        assert not used & bits, field.name
        assert bits < 1 << isa.COMMAND_BITS
        used |= bits


@pytest.mark.parametrize("opcode", Opcode)
def test_decode_undoes_encode(opcode):
    rng = random.Random(int(opcode))
    for _ in range(20):
        values = {}
        for field in COMMANDS[opcode]:
            if field.name == "opcode":
                continue
            values[field.name] = (
                isa.semaphore(rng.randrange(32), rng.randrange(1, 256))
                if field.name.startswith(("wait", "post")) and field.width == 16
                else rng.randrange(1 << field.width)
            )
        assert isa.decode(isa.encode(opcode, **values)) == (opcode, values)


def test_engine_is_the_high_half_of_the_opcode():
    assert Opcode.GEMM_WAIT.engine == Engine.GEMM
    assert Opcode.TABLE.engine == Engine.VECTOR
    assert Opcode.BARRIER.engine == Engine.SEQUENCER


def test_wrong_fields_are_named():
    with pytest.raises(ValueError, match="GEMM has no field 'rows'"):
        isa.encode(Opcode.GEMM, rows=1)
    with pytest.raises(ValueError, match="GEMM field k must be from 0 to 65535, not 65536"):
        isa.encode(Opcode.GEMM, k=1 << 16)
    with pytest.raises(ValueError, match="opcode must be a known one, not 0xee"):
        isa.decode(b"\xee" + bytes(63))
    with pytest.raises(ValueError, match="reserved bits of BARRIER must be zero"):
        isa.decode(b"\x01\x01" + bytes(62))
    with pytest.raises(ValueError, match="semaphore amount must be from 1 to 255, not 0"):
        isa.semaphore(1, 0)


def test_registers_neither_overlap_nor_are_misaligned():
    offsets = [register.offset for register in REGISTERS]
    assert len(set(offsets)) == len(offsets)
    assert all(offset % 4 == 0 and offset < 256 for offset in offsets)
    assert offset_of("status") == 0x24


@pytest.mark.parametrize("name", PRESETS)
def test_header_compiles_and_has_every_register(name, tmp_path):
    path = tmp_path / "bertha.h"
    path.write_text(header.text(PRESETS[name]))
    source = tmp_path / "use.c"
    source.write_text(
        '#include "bertha.h"\n#include "bertha.h"\n'
        f'_Static_assert(BERTHA_ARRAY_N == {PRESETS[name].array_n}, "");\n'
        '_Static_assert(BERTHA_REG_STATUS == 0x24, "");\n'
        '_Static_assert(BERTHA_GEMM_K_WORD == 10 && BERTHA_GEMM_K_WIDTH == 16, "");\n'
        '_Static_assert(BERTHA_OP_SOFTMAX == 0x40, "");\n'
    )
    subprocess.run(["g++", "-x", "c", "-Wall", "-Werror", "-fsyntax-only", source], check=True)
    for register in REGISTERS:
        assert f"BERTHA_REG_{register.name.upper()} " in path.read_text()
