"""Rough costs that schedules are chosen by; `bertha.compiler.predict` is what counts cycles."""

from bertha.rtl.isa import Opcode

__all__ = ["vector_cycles"]

WORD_CYCLES = 2  # of a vector pass, measured while the array works: they share the scratchpad
PASS_CYCLES = 20  # that a vector pass takes beside its words
SCALE_CYCLES = {Opcode.SOFTMAX: 30, Opcode.LAYERNORM: 91}  # 1/sum, 1/deviation (rtl/vector/row_scale.py)


def vector_cycles(opcode, words) -> int:
    """Cycles of a pass of the vector engine."""
    return WORD_CYCLES * words + PASS_CYCLES + SCALE_CYCLES.get(opcode, 0)
