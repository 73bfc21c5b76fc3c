"""One GEMM command of two that follow each other, where their tiles lie as a command's tiles do."""

from bertha.rtl.isa import Opcode

__all__ = ["fuse_gemm"]

_STRIDES = {
    "a_addr": "a_stride",
    "b_addr": "b_stride",
    "c_addr": "c_stride",
    "residue_addr": "residue_stride",
    "residual_addr": "residual_stride",
    "param_addr": "param_stride",
    "slot": "slot_step",
    "first_key": "key_step",
}
_LARGEST = {"slot_step": (1 << 8) - 1}
_LARGEST_STRIDE = (1 << 16) - 1
_MOST_TILES = (1 << 16) - 1


def fuse_gemm(command, following) -> bool:
    """Adds the tile of `following`, a GEMM of one tile, to `command`; whether that was possible."""
    if not (command.opcode == following.opcode == Opcode.GEMM) or command.name != following.name:
        return False
    fields, new = command.fields, following.fields
    count = fields["count"]
    if (
        new["count"] != 1
        or count == _MOST_TILES
        or bool(command.residue_words) != bool(following.residue_words)
    ):
        return False
    varying = {*_STRIDES, *_STRIDES.values(), "count"}
    if any(fields.get(name, 0) != new.get(name, 0) for name in {*fields, *new} - varying):
        return False
    if fields.get("statistics_init"):  # every tile would begin anew
        return False
    strides = {}
    for name, stride in _STRIDES.items():
        apart = new.get(name, 0) - fields.get(name, 0)
        step = fields.get(stride, 0) if count > 1 else apart
        if apart != count * step or not 0 <= step <= _LARGEST.get(stride, _LARGEST_STRIDE):
            return False
        strides[stride] = step
    fields.update({stride: step for stride, step in strides.items() if step or stride in fields})
    fields["count"] = count + 1
    command.work += following.work
    command.residue_words += following.residue_words
    return True
