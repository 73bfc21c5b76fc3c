"""What each tile of a command reads and writes, and when it is safe to say that it has.

Used by the pass that places semaphores and by the checker. Spaces are the scratchpad (lines), DRAM (lines from
the window's base), row statistics, row factors and row ranges (slots), and the two tables.
"""

from typing import NamedTuple

from bertha.compiler.layout.panels import even
from bertha.rtl.isa import Opcode, Statistics, Table, Wide

__all__ = [
    "FACTOR_LINES",
    "RANGE_LINES",
    "RECORD_LINES",
    "Access",
    "Space",
    "accesses",
    "norm_lines",
    "space_sizes",
]

RECORD_LINES = 4
FACTOR_LINES = 2
RANGE_LINES = 2


class Space:
    """Names of the spaces."""

    SCRATCHPAD = "scratchpad"
    DRAM = "dram"
    STATISTICS = "statistics"
    FACTORS = "factors"
    RANGES = "ranges"
    TABLES = "tables"


class Access(NamedTuple):
    """`first` up to, not including, `end` of `space`.

    `operand`: a read that is over when post0 of a GEMM is posted; all others are over when the command is done.
    The column records count as operands: they are read ahead of the drain, and whatever may overwrite them after
    post0 first has to wait for DRAM.
    """

    space: str
    first: int
    end: int
    write: bool
    operand: bool = False


def accesses(command, tile, config, *, dram_base, residue_words=None) -> list[Access]:
    """Accesses of tile `tile` of a command.

    Parameters
    ----------
    residue_words : int, optional
        Flagged columns of the tile; by default what the command says.
    """
    get, opcode = command.get, command.opcode
    found = []

    def add(first, count, *, write=False, operand=False, space=Space.SCRATCHPAD):
        if count > 0:
            found.append(Access(space, first, first + count, write, operand))

    if residue_words is None and command.residue_words:
        residue_words = command.residue_words[tile]
    if opcode in (Opcode.LOAD, Opcode.STORE):
        for row in range(get("rows")):
            line = get("scratchpad_addr") + row * get("scratchpad_stride")
            address = get("dram_addr") + row * get("dram_stride") - dram_base
            add(line, get("lines"), write=opcode == Opcode.LOAD)
            add(address // config.line_bytes, get("lines"), write=opcode == Opcode.STORE, space=Space.DRAM)
    elif opcode == Opcode.GEMM:
        operand_lines = get("k") // 2
        for name, wide in (("a", Wide.A), ("b", Wide.B)):
            first = get(f"{name}_addr") + tile * get(f"{name}_stride")
            add(first, operand_lines, operand=True)
            if get("wide") == wide:
                add(first + get("low_offset"), operand_lines, operand=True)
        if get("params"):
            add(get("param_addr") + tile * get("param_stride"), RECORD_LINES, operand=True)
        if get("residual"):
            add(get("residual_addr") + tile * get("residual_stride"), get("columns"))
        slot = get("slot") + tile * get("slot_step")
        if get("row_factor"):
            add(slot, 1, space=Space.FACTORS)
        if get("ranges"):
            add(slot, 1, space=Space.RANGES)
        if get("statistics") != Statistics.NONE:
            add(slot, 1, write=True, space=Space.STATISTICS)
        if get("piecewise"):
            add(Table.PIECEWISE, 1, space=Space.TABLES)
        lines = get("columns") if get("out16") else even(get("columns")) // 2
        add(get("c_addr") + tile * get("c_stride"), lines, write=True)
        if get("residue") or get("out_wide"):
            words = get("columns") if get("out_wide") else residue_words or 0
            add(get("residue_addr") + tile * get("residue_stride"), even(words) // 2, write=True)
    elif opcode == Opcode.SOFTMAX:
        add(get("src_addr"), get("words"))
        add(get("slot"), 1, space=Space.STATISTICS)
        add(Table.EXP2, 1, space=Space.TABLES)
        add(get("dst8_addr"), get("words") // 2, write=True)
        add(get("slot"), 1, write=True, space=Space.FACTORS)
    elif opcode in (Opcode.LAYERNORM, Opcode.QUANTIZE):
        add(get("src_addr"), get("words"))
        add(get("param_addr"), norm_lines(get("words"), config))
        if opcode == Opcode.LAYERNORM:
            add(get("slot"), 1, space=Space.STATISTICS)
            if get("write16"):
                add(get("dst16_addr"), get("words"), write=True)
        if opcode == Opcode.QUANTIZE or get("write8"):
            add(get("dst8_addr"), get("words") // 2, write=True)
        if get("residue") or get("wide"):
            words = get("words") if get("wide") else residue_words or 0
            add(get("residue_addr"), even(words) // 2, write=True)
    elif opcode == Opcode.FACTORS:
        add(get("src_addr"), FACTOR_LINES)
        add(get("slot"), 1, write=True, space=Space.FACTORS)
    elif opcode == Opcode.RANGES:
        add(get("src_addr"), RANGE_LINES)
        add(get("slot"), 1, write=True, space=Space.RANGES)
    elif opcode == Opcode.TABLE:
        entry_bytes, entries = (2, 64) if get("table") == Table.EXP2 else (4, 256)
        add(get("src_addr"), -(-entries * entry_bytes // config.line_bytes))
        add(get("table"), 1, write=True, space=Space.TABLES)
    return found


def space_sizes(config, window) -> dict[str, int]:
    """Places of each space, for a window of DRAM from its first byte to the first one after it."""
    base, limit = window
    return {
        Space.SCRATCHPAD: config.lines,
        Space.DRAM: -(-(limit - base) // config.line_bytes),
        Space.STATISTICS: config.row_slots,
        Space.FACTORS: config.row_slots,
        Space.RANGES: config.row_slots,
        Space.TABLES: len(Table),
    }


def norm_lines(words, config) -> int:
    """Lines of the norm records of `words` features."""
    return -(-8 * words // config.line_bytes)
