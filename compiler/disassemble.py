"""Programs as text, one command a line."""

from collections.abc import Iterator

from bertha.compiler.check.fields import SEMAPHORE_FIELDS, unpack_semaphore
from bertha.rtl.isa import COMMANDS, Opcode, Statistics, Table, Wide

__all__ = ["disassemble"]

_ENUMS = {
    (Opcode.GEMM, "statistics"): Statistics,
    (Opcode.GEMM, "wide"): Wide,
    (Opcode.TABLE, "table"): Table,
}
_EACH = {"wait1": "wait1_each", "post0": "post0_each", "post1": "post1_each"}


def disassemble(program) -> Iterator[str]:
    """Lines of text: number, opcode, fields that aren't zero, waits and posts, and the operation.

    Waits are shown as `semaphore-amount`, posts as `semaphore+amount`, `/tile` behind those that come with
    every tile; post0 of a GEMM, which comes when the operands are read, is shown as `semaphore+amount(read)`.
    """
    yield (
        f"; {program.name}: {len(program.commands)} commands at {program.program_address:#x}, "
        f"window {program.window[0]:#x} to {program.window[1]:#x}"
    )
    width = max(len(opcode.name) for opcode in Opcode)
    for number, command in enumerate(program.commands):
        parts = [f"{number:6d}  {command.opcode.name:{width}}"]
        waits, posts = [], []
        for field in COMMANDS[command.opcode]:
            value = command.get(field.name)
            if field.name == "opcode" or not value or field.name in _EACH.values():
                continue
            if field.name in SEMAPHORE_FIELDS:
                (waits if field.name.startswith("wait") else posts).append(_semaphore(command, field.name))
            elif (command.opcode, field.name) in _ENUMS:
                parts.append(f"{field.name}={_ENUMS[command.opcode, field.name](value).name}")
            elif field.width == 1:
                parts.append(field.name)
            elif field.name == "dram_addr":
                parts.append(f"{field.name}={value:#x}")
            else:
                parts.append(f"{field.name}={value}")
        if waits:
            parts.append("wait " + ",".join(waits))
        if posts:
            parts.append("post " + ",".join(posts))
        yield " ".join(parts) + f"  ; {command.name}"


def _semaphore(command, name):
    unit = unpack_semaphore(command.get(name))
    if unit is None:
        return f"{command.get(name):#x}"
    number, amount = unit
    text = f"s{number}{'-' if name.startswith('wait') else '+'}{amount}"
    if command.opcode == Opcode.GEMM and name == "post0":
        text += "(read)"
    if command.get(_EACH.get(name, "")):
        text += "/tile"
    return text
