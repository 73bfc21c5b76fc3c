"""One GEMM command of two that follow each other, where their tiles lie as a command's tiles do."""

from bertha.compiler.program import GEMM_STRIDES
from bertha.rtl.isa import COMMANDS, Opcode

__all__ = ["fuse_gemm"]

_LARGEST = {field.name: (1 << field.width) - 1 for field in COMMANDS[Opcode.GEMM]}


def fuse_gemm(command, following) -> bool:
    """Adds the tile of `following`, a GEMM of one tile, to `command`; whether that was possible."""
    if not (command.opcode == following.opcode == Opcode.GEMM) or command.name != following.name:
        return False
    fields, new = command.fields, following.fields
    count = fields["count"]
    if (
        new["count"] != 1
        or count == _LARGEST["count"]
        or bool(command.residue_words) != bool(following.residue_words)
    ):
        return False
    varying = {*GEMM_STRIDES, *GEMM_STRIDES.values(), "count"}
    if any(fields.get(name, 0) != new.get(name, 0) for name in {*fields, *new} - varying):
        return False
    if fields.get("statistics_init"):  # every tile would begin anew
        return False
    strides = {}
    for name, stride in GEMM_STRIDES.items():
        apart = new.get(name, 0) - fields.get(name, 0)
        step = fields.get(stride, 0) if count > 1 else apart
        if apart != count * step or not 0 <= step <= _LARGEST[stride]:
            return False
        strides[stride] = step
    fields.update({stride: step for stride, step in strides.items() if step or stride in fields})
    fields["count"] = count + 1
    command.work += following.work
    command.residue_words += following.residue_words
    return True
