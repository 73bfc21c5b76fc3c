"""A compiled program as bytes and JSON, and back."""

import hashlib
from dataclasses import asdict

import numpy as np

from bertha.compiler.program import Command, Operand, Program, Work
from bertha.rtl.config import Config
from bertha.rtl.isa import COMMAND_BYTES, COMMANDS, Opcode, decode
from bertha.rtl.registers import VERSION

__all__ = ["instruction_set", "pack_program", "plan_as_dict", "unpack_program"]


def instruction_set() -> str:
    """Names this version's commands, registers and their fields: equal if and only if programs mean the same."""
    fields = [
        (int(opcode), [(field.name, field.offset, field.width) for field in COMMANDS[opcode]])
        for opcode in Opcode
    ]
    digest = hashlib.sha256(repr((VERSION, COMMAND_BYTES, fields)).encode()).hexdigest()
    return f"{VERSION >> 16}.{VERSION & 0xFFFF}-{digest[:12]}"


def pack_program(program) -> tuple[dict, dict, bytes, bytes]:
    """A program in four parts.

    Returns
    -------
    layout : dict
        Configuration and addresses, as JSON has it.
    commands : dict
        What reports want to know about the commands, as JSON has it.
    code : bytes
    image : bytes
        The pieces of DRAM, without the code, one after another.
    """
    pieces = [piece for piece in program.pieces if piece[0] != program.program_address]
    layout = {
        "name": program.name,
        "config": program.config.as_dict(),
        "program_address": program.program_address,
        "window": list(program.window),
        "scratch": [list(region) for region in program.scratch],
        "x16": _operand(program.x16),
        "x8": _operand(program.x8),
        "ranges_address": program.ranges_address,
        "mask_address": program.mask_address,
        "ranges": None if program.ranges is None else program.ranges.tolist(),
        "output16": _operand(program.output16),
        "pieces": [[address, len(content)] for address, content in pieces],
    }
    commands = {
        "name": [command.name for command in program.commands],
        "work": [[_work(work) for work in command.work] for command in program.commands],
        "residue_words": [list(command.residue_words) for command in program.commands],
        "dram_bytes": [command.dram_bytes for command in program.commands],
    }
    return layout, commands, program.code, b"".join(content for _, content in pieces)


def unpack_program(layout, commands, code, image) -> Program:
    """The program of which these are `pack_program`'s parts, but for its plan.

    Raises
    ------
    KeyError, TypeError, ValueError
        If they don't fit together.
    """
    pieces, start = [], 0
    for address, nbytes in layout["pieces"]:
        pieces.append((address, image[start : start + nbytes]))
        start += nbytes
    if start != len(image):
        raise ValueError(f"the image must have {start} bytes, not {len(image)}")
    found = []
    columns = (commands[name] for name in ("name", "work", "residue_words", "dram_bytes"))
    for number, (name, work, residue_words, dram_bytes) in enumerate(zip(*columns, strict=True)):
        opcode, fields = decode(code[number * COMMAND_BYTES : (number + 1) * COMMAND_BYTES])
        found.append(
            Command(
                opcode=opcode,
                fields={field: value for field, value in fields.items() if value},
                name=name,
                work=tuple(_restored_work(*part) for part in work),
                residue_words=tuple(residue_words),
                dram_bytes=dram_bytes,
            )
        )
    if len(found) * COMMAND_BYTES != len(code):
        raise ValueError(f"the code must have {len(found)} commands, not {len(code) / COMMAND_BYTES}")
    pieces.append((layout["program_address"], code))
    return Program(
        config=Config(**layout["config"]),
        commands=found,
        pieces=pieces,
        program_address=layout["program_address"],
        window=tuple(layout["window"]),
        scratch=[tuple(region) for region in layout["scratch"]],
        x16=_restored_operand(layout["x16"]),
        x8=_restored_operand(layout["x8"]),
        ranges_address=layout["ranges_address"],
        mask_address=layout["mask_address"],
        ranges=None if layout["ranges"] is None else np.array(layout["ranges"], dtype=np.int64),
        output16=_restored_operand(layout["output16"]),
        name=layout["name"],
    )


def plan_as_dict(plan) -> dict[str, object]:
    """What the plan chose, and its buffers in the scratchpad (first line, lines), as JSON has it."""
    return {
        "choice": asdict(plan.choice),
        "buffers": {name: list(place) for name, place in plan.buffers.items()},
    }


def _operand(operand):
    return operand and asdict(operand)


def _restored_operand(values):
    return values and Operand(**values)


def _work(work):
    keys = [] if work.keys is None else [work.keys.start, work.keys.stop]
    return [work.each, work.rows.start, work.rows.stop, *keys]


def _restored_work(each, first, last, *keys):
    return Work(each, range(first, last), range(*keys) if keys else None)
