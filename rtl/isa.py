"""The instruction set, declared once.

Hardware, assembler, disassembler, the C header and `docs/programming.md` all come from the
declarations here. A program is a sequence of commands of `COMMAND_BYTES` each, little-endian.
A command is made of named fields; a bit that no field claims must be zero.

Addresses in the scratchpad count lines (2 · N bytes: two 8-bit words, or one 16-bit word), so a
scratchpad address can't be misaligned. DRAM addresses count bytes and are multiples of a line.
"""

from dataclasses import dataclass
from enum import IntEnum

from amaranth.hdl import signed, unsigned
from amaranth.lib import data

__all__ = [
    "COMMANDS",
    "COMMAND_BITS",
    "COMMAND_BYTES",
    "EXP2_ENTRIES",
    "MAXIMUM_WORDS",
    "SEGMENTS",
    "ColumnRecord",
    "Engine",
    "FactorRecord",
    "FaultReason",
    "Field",
    "NormRecord",
    "Opcode",
    "RangeRecord",
    "SegmentRecord",
    "Statistics",
    "Table",
    "Wide",
    "command_layout",
    "decode",
    "encode",
    "reserved_mask",
    "semaphore",
    "semaphore_layout",
]

COMMAND_BYTES = 64
MAXIMUM_WORDS = 4096
"""Of a panel that SOFTMAX, LAYERNORM or QUANTIZE goes through."""
EXP2_ENTRIES = 64
SEGMENTS = 256
"""Of the piecewise table."""

COMMAND_BITS = 8 * COMMAND_BYTES


class Engine(IntEnum):
    """Who executes a command: the high four bits of its opcode."""

    SEQUENCER = 0
    LOAD = 1
    STORE = 2
    GEMM = 3
    VECTOR = 4


class Opcode(IntEnum):
    """First byte of a command."""

    BARRIER = 0x01
    LOAD = 0x10
    LOAD_WAIT = 0x1F
    STORE = 0x20
    STORE_WAIT = 0x2F
    GEMM = 0x30
    GEMM_WAIT = 0x3F
    SOFTMAX = 0x40
    LAYERNORM = 0x41
    QUANTIZE = 0x42
    FACTORS = 0x43
    TABLE = 0x44
    RANGES = 0x45
    VECTOR_WAIT = 0x4F

    @property
    def engine(self) -> Engine:
        return Engine(self >> 4)


class Statistics(IntEnum):
    """What a GEMM gathers of each row of its result in the row slot."""

    NONE = 0
    MAX = 1
    MOMENTS = 2


class Table(IntEnum):
    """Which table a TABLE command fills."""

    EXP2 = 0
    PIECEWISE = 1


class Wide(IntEnum):
    """Which operand of a GEMM holds int16 values as two planes of signed bytes."""

    NONE = 0
    A = 1
    B = 2


class FaultReason(IntEnum):
    """Why a program was stopped."""

    NONE = 0
    ILLEGAL_COMMAND = 1
    SCRATCHPAD_RANGE = 2
    DRAM_WINDOW = 3
    MISALIGNED = 4
    AXI_SLVERR = 5
    AXI_DECERR = 6
    SEMAPHORE_OVERFLOW = 7
    DEADLOCK = 8
    HOST_STOP = 9
    PROGRAM_LENGTH = 10
    AXI_PROTOCOL = 11


@dataclass(frozen=True)
class Field:
    """A named bit range of a command: `width` bits from bit `low` of 32-bit word `word`."""

    name: str
    word: int
    low: int
    width: int
    doc: str

    @property
    def offset(self) -> int:
        return 32 * self.word + self.low


def _semaphores(*docs):
    places = (("wait0", 12, 0), ("wait1", 12, 16), ("post0", 13, 0), ("post1", 13, 16))
    return [Field(name, word, low, 16, doc) for (name, word, low), doc in zip(places, docs)]


_OPCODE = Field("opcode", 0, 0, 8, "operation")
_WAIT = "taken once, before the command starts"
_DONE = "posted when the last result is written"

_DMA = [
    _OPCODE,
    Field("dram_addr", 1, 0, 64, "first byte in DRAM; a multiple of a line"),
    Field("scratchpad_addr", 3, 0, 24, "first line in the scratchpad"),
    Field("lines", 4, 0, 16, "contiguous lines of a row, at least 1"),
    Field("rows", 4, 16, 16, "rows, at least 1"),
    Field("dram_stride", 5, 0, 32, "bytes from a row to the next in DRAM; a multiple of a line"),
    Field("scratchpad_stride", 6, 0, 16, "lines from a row to the next in the scratchpad"),
    *_semaphores(_WAIT, _WAIT, _DONE, _DONE),
]

_WAIT_ONLY = [_OPCODE, *_semaphores(_WAIT, _WAIT)]

COMMANDS = {
    Opcode.BARRIER: [_OPCODE],
    Opcode.LOAD: _DMA,
    Opcode.STORE: _DMA,
    Opcode.LOAD_WAIT: _WAIT_ONLY,
    Opcode.STORE_WAIT: _WAIT_ONLY,
    Opcode.GEMM_WAIT: _WAIT_ONLY,
    Opcode.VECTOR_WAIT: _WAIT_ONLY,
    Opcode.GEMM: [
        _OPCODE,
        Field("a_unsigned", 0, 8, 1, "A holds unsigned bytes"),
        Field("piecewise", 0, 9, 1, "apply the piecewise table (GELU) after requantisation"),
        Field("residual", 0, 10, 1, "add an int16 panel, saturating"),
        Field("row_factor", 0, 11, 1, "multiplier and shift come from the row slot, per lane"),
        Field("params", 0, 12, 1, "read a column record for every column"),
        Field("uniform", 0, 13, 1, "mult, shift and post_shift of this command replace the records'"),
        Field("out16", 0, 14, 1, "write int16 lines instead of int8 words"),
        Field("residue", 0, 15, 1, "write what int8 saturation cut off flagged columns to residue_addr"),
        Field("statistics", 0, 16, 2, "row statistics gathered in the slot (`Statistics`)"),
        Field("statistics_init", 0, 18, 1, "start the statistics anew instead of continuing the slot's"),
        Field("wait1_each", 0, 19, 1, "take wait1 before every tile, not once"),
        Field("post0_each", 0, 20, 1, "post post0 after every tile, not once"),
        Field("post1_each", 0, 21, 1, "post post1 after every tile, not once"),
        Field("ranges", 0, 22, 1, "mask the columns whose keys are outside of the row's range in the slot"),
        Field(
            "wide", 0, 23, 2, "operand that has a low plane as well (`Wide`); a tile then takes two passes"
        ),
        Field("out_wide", 0, 25, 1, "write int16 results as two planes: high to c_addr, low to residue_addr"),
        Field("a_addr", 1, 0, 24, "first line of A's panel"),
        Field("columns", 1, 24, 8, "columns of the tile that are written, 1 to N"),
        Field("b_addr", 2, 0, 24, "first line of B's panel"),
        Field("slot", 2, 24, 8, "row slot of the first tile"),
        Field("c_addr", 3, 0, 24, "first line of the result"),
        Field("slot_step", 3, 24, 8, "added to the slot after every tile"),
        Field("residue_addr", 4, 0, 24, "first line of the residue words, or of the low words"),
        Field("shift", 4, 24, 6, "right shift when `params` is clear or `uniform` set"),
        Field("residual_addr", 5, 0, 24, "first line of the residual panel"),
        Field("post_shift", 5, 24, 4, "right shift before int8 saturation, as `shift`"),
        Field("gain", 5, 28, 4, "subtracted from the row factor's shift, stopping at 0"),
        Field("param_addr", 6, 0, 24, "first line of the tile's column records"),
        Field("a_stride", 7, 0, 16, "added to a_addr after every tile, in lines"),
        Field("b_stride", 7, 16, 16, "added to b_addr after every tile"),
        Field("c_stride", 8, 0, 16, "added to c_addr after every tile"),
        Field("residue_stride", 8, 16, 16, "added to residue_addr after every tile"),
        Field("residual_stride", 9, 0, 16, "added to residual_addr after every tile"),
        Field("param_stride", 9, 16, 16, "added to param_addr after every tile"),
        Field("k", 10, 0, 16, "words of A and B, even, at least 2"),
        Field("count", 10, 16, 16, "tiles, at least 1"),
        Field("mult", 11, 0, 16, "unsigned multiplier when `params` is clear or `uniform` set"),
        *_semaphores(
            _WAIT,
            "taken once or, with wait1_each, before every tile",
            "posted when the operands are read",
            "posted when the results are written",
        ),
        Field("first_key", 14, 0, 16, "key of the first tile's column 0, with `ranges`"),
        Field("key_step", 14, 16, 16, "added to the key after every tile"),
        Field("low_offset", 15, 0, 16, "lines from the wide operand's high plane to its low plane"),
    ],
    Opcode.SOFTMAX: [
        _OPCODE,
        Field("whole_sum", 0, 8, 1, "with `kept`: the sum is that of all keys, not of the kept ones"),
        Field("src_addr", 1, 0, 24, "int16 scores in log2 units of 1/64, one line a word"),
        Field("slot", 1, 24, 8, "row maximum is read from, 1/sum written to this row slot"),
        Field("dst8_addr", 3, 0, 24, "unsigned 8-bit P, two words a line"),
        Field("words", 5, 0, 16, "words of the panel, even, at least 2"),
        Field("kept", 6, 0, 13, "keys of a row that keep their P, those with the highest scores; 0: all"),
        *_semaphores(_WAIT, _WAIT, _DONE, _DONE),
    ],
    Opcode.LAYERNORM: [
        _OPCODE,
        Field("write16", 0, 8, 1, "write the int16 result"),
        Field("write8", 0, 9, 1, "write the int8 result"),
        Field("residue", 0, 10, 1, "write the residue of flagged columns after saturation"),
        Field("wide", 0, 11, 1, "write two planes: high to dst8_addr (with write8), low to residue_addr"),
        Field("src_addr", 1, 0, 24, "int16 panel, one line a word"),
        Field("slot", 1, 24, 8, "row moments are read from this row slot"),
        Field("dst16_addr", 2, 0, 24, "int16 result; may be src_addr"),
        Field("dst8_addr", 3, 0, 24, "int8 result, two words a line"),
        Field("residue_addr", 4, 0, 24, "residue or low words, two a line"),
        Field("words", 5, 0, 16, "words of the panel, even, at least 2: the n of the mean"),
        Field("gamma_shift", 5, 16, 6, "right shift after gamma"),
        Field("mult_shift", 5, 24, 6, "right shift after the int8 multiplier"),
        Field("param_addr", 6, 0, 24, "first line of the norm records, one a word"),
        Field("epsilon", 7, 0, 32, "added to n**2 * variance"),
        *_semaphores(_WAIT, _WAIT, _DONE, _DONE),
    ],
    Opcode.QUANTIZE: [
        _OPCODE,
        Field("residue", 0, 10, 1, "write the residue of flagged columns after saturation"),
        Field("wide", 0, 11, 1, "write two planes: high to dst8_addr, low to residue_addr"),
        Field("src_addr", 1, 0, 24, "int16 panel, one line a word"),
        Field("dst8_addr", 3, 0, 24, "int8 result, two words a line"),
        Field("residue_addr", 4, 0, 24, "residue or low words, two a line"),
        Field("words", 5, 0, 16, "words of the panel, even, at least 2"),
        Field("mult_shift", 5, 24, 6, "right shift after the int8 multiplier"),
        Field("param_addr", 6, 0, 24, "first line of the norm records, one a word"),
        *_semaphores(_WAIT, _WAIT, _DONE, _DONE),
    ],
    Opcode.FACTORS: [
        _OPCODE,
        Field("src_addr", 1, 0, 24, "N factor records (two lines)"),
        Field("slot", 1, 24, 8, "row slot that receives them"),
        *_semaphores(_WAIT, _WAIT, _DONE, _DONE),
    ],
    Opcode.TABLE: [
        _OPCODE,
        Field("table", 0, 8, 1, "which table (`Table`)"),
        Field("src_addr", 1, 0, 24, "EXP2: 64 unsigned 16-bit entries; PIECEWISE: 256 segment records"),
        *_semaphores(_WAIT, _WAIT, _DONE, _DONE),
    ],
    Opcode.RANGES: [
        _OPCODE,
        Field("src_addr", 1, 0, 24, "N range records (two lines)"),
        Field("slot", 1, 24, 8, "row slot that receives them"),
        *_semaphores(_WAIT, _WAIT, _DONE, _DONE),
    ],
}

semaphore_layout = data.StructLayout({"amount": 8, "semaphore": 5, "reserved": 2, "enable": 1})
"""Shape of wait and post fields: take or add `amount` (at least 1 when enabled) at `semaphore`."""


class ColumnRecord(data.Struct):
    """What the GEMM epilogue does with one column of the result; 8 bytes in the scratchpad."""

    bias: signed(32)
    mult: unsigned(16)
    shift: unsigned(6)
    post_shift: unsigned(4)
    mask: unsigned(1)
    residue: unsigned(1)
    reserved: unsigned(4)


class NormRecord(data.Struct):
    """What LAYERNORM and QUANTIZE do with one column; 8 bytes in the scratchpad."""

    gamma: signed(16)
    beta: signed(16)
    mult: unsigned(16)
    residue: unsigned(1)
    reserved: unsigned(15)


class FactorRecord(data.Struct):
    """Multiplier and right shift of one lane; 4 bytes in the scratchpad."""

    mult: unsigned(16)
    shift: unsigned(6)
    reserved: unsigned(10)


class RangeRecord(data.Struct):
    """Keys that one lane's row sees: `first` and those after it, up to but without `last`; 4 bytes."""

    first: unsigned(16)
    last: unsigned(16)


class SegmentRecord(data.Struct):
    """One of the 256 segments of the piecewise table; 4 bytes in the scratchpad."""

    base: signed(16)
    slope: signed(16)


def command_layout(opcode) -> data.FlexibleLayout:
    """Layout of a whole command: its fields at their places in `COMMAND_BITS` bits."""
    return data.FlexibleLayout(
        COMMAND_BITS,
        {
            f.name: data.Field(
                semaphore_layout
                if f.name.startswith(("wait", "post")) and f.width == 16
                else unsigned(f.width),
                f.offset,
            )
            for f in COMMANDS[opcode]
        },
    )


def reserved_mask(opcode) -> int:
    """The bits of a command of this opcode that must be zero, as an integer."""
    used = 0
    for field in COMMANDS[opcode]:
        width = field.width
        bits = (1 << width) - 1
        if width == 16 and field.name.startswith(("wait", "post")):
            bits &= ~(0b11 << 13)
        used |= bits << field.offset
    return ((1 << COMMAND_BITS) - 1) & ~used


def semaphore(number, amount=1) -> int:
    """A wait or post field as an integer: `amount` units of semaphore `number`."""
    if not 0 <= number < 32:
        raise ValueError(f"semaphore number must be from 0 to 31, not {number}")
    if not 1 <= amount <= 255:
        raise ValueError(f"semaphore amount must be from 1 to 255, not {amount}")
    return 1 << 15 | number << 8 | amount


def encode(opcode, **values) -> bytes:
    """A command as `COMMAND_BYTES` bytes; fields that are not named are zero.

    Raises
    ------
    ValueError
        If a field doesn't exist in this command or a value doesn't fit it.
    """
    opcode = Opcode(opcode)
    fields = {f.name: f for f in COMMANDS[opcode]}
    word = int(opcode)
    for name, value in values.items():
        if name not in fields or name == "opcode":
            raise ValueError(f"{opcode.name} has no field {name!r}")
        value = int(value)
        if not 0 <= value < 1 << fields[name].width:
            raise ValueError(
                f"{opcode.name} field {name} must be from 0 to {(1 << fields[name].width) - 1}, not {value}"
            )
        word |= value << fields[name].offset
    return word.to_bytes(COMMAND_BYTES, "little")


def decode(command) -> tuple[Opcode, dict[str, int]]:
    """Opcode and field values (a dict) of a command's bytes.

    Raises
    ------
    ValueError
        If the opcode is unknown or a reserved bit is set.
    """
    word = int.from_bytes(command, "little")
    try:
        opcode = Opcode(word & 0xFF)
    except ValueError:
        raise ValueError(f"opcode must be a known one, not {word & 0xFF:#04x}") from None
    if word & reserved_mask(opcode):
        raise ValueError(f"reserved bits of {opcode.name} must be zero, not {command.hex()}")
    return opcode, {
        f.name: word >> f.offset & ((1 << f.width) - 1) for f in COMMANDS[opcode] if f.name != "opcode"
    }
