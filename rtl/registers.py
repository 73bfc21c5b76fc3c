"""The register map, declared once: hardware, driver, C header and documents come from it."""

from dataclasses import dataclass
from enum import Enum

__all__ = [
    "ADDRESS_BITS",
    "IDENTITY",
    "REGISTERS",
    "VERSION",
    "Access",
    "Register",
    "offset_of",
    "registers_of",
]

IDENTITY = 0x48545242  # "BRTH", little-endian
VERSION = 0x0001_0001
ADDRESS_BITS = 8  # of the register space


class Access(Enum):
    """What software may do with a register."""

    READ = "read"
    READ_WRITE = "read/write"
    WRITE_ONE = "write 1 to act"


@dataclass(frozen=True)
class Register:
    """One register of 32 bits at byte `offset`.

    `counts` marks those that an accelerator without cycle counters doesn't have; they read zero there.
    """

    name: str
    offset: int
    access: Access
    doc: str
    counts: bool = False


_R, _RW, _W1 = Access.READ, Access.READ_WRITE, Access.WRITE_ONE

REGISTERS = [
    Register("identity", 0x00, _R, "0x48545242, the bytes of 'BRTH'"),
    Register("version", 0x04, _R, "major << 16 | minor"),
    Register("array_n", 0x08, _R, "side of the array, N"),
    Register("scratchpad_bytes", 0x0C, _R, "size of the scratchpad"),
    Register("axi", 0x10, _R, "data bits << 16 | address bits"),
    Register("limits", 0x14, _R, "row slots << 16 | semaphores << 8 | queue depth"),
    Register(
        "control",
        0x20,
        _W1,
        "bit 0: doorbell (start); bit 1: clear (an error); bit 2: stop; bit 3: abandon; "
        "bit 4: snapshot of the cycle counters",
    ),
    Register("status", 0x24, _R, "bit 0: busy; bit 1: done; bit 2: error; bit 3: the bus owes answers"),
    Register("irq_enable", 0x28, _RW, "bit 0: interrupt on done or error"),
    Register("irq_status", 0x2C, _W1, "bit 0: pending; write 1 to acknowledge"),
    Register("error_reason", 0x30, _R, "FaultReason of the first fault"),
    Register("error_index", 0x34, _R, "position in the program of the command at fault"),
    Register("error_engine", 0x38, _R, "Engine that saw the fault"),
    Register("program_addr", 0x40, _RW, "first byte of the program in DRAM, low half; a multiple of 64"),
    Register("program_addr_high", 0x44, _RW, "high half"),
    Register("program_length", 0x48, _RW, "commands in the program, less than 2**24"),
    Register("window_base", 0x50, _RW, "first byte of DRAM that may be accessed, low half"),
    Register("window_base_high", 0x54, _RW, "high half"),
    Register("window_limit", 0x58, _RW, "first byte after the window, low half"),
    Register("window_limit_high", 0x5C, _RW, "high half"),
    Register("cycles", 0x80, _R, "cycles from doorbell to completion, low half; a read keeps the high half"),
    Register("cycles_high", 0x84, _R, "high half, as it was when the low half was read last"),
    Register("load_busy", 0x88, _R, "cycles in which a read beat arrived for the load engine"),
    Register("store_busy", 0x8C, _R, "cycles in which a write beat left"),
    Register("gemm_busy", 0x90, _R, "cycles in which a word pair entered the array"),
    Register("vector_busy", 0x94, _R, "cycles in which the vector engine worked on a command"),
    Register("commands_done", 0x98, _R, "commands dispatched"),
    Register("cycle_counters", 0xA0, _R, "1 if there are cycle counters, else 0", counts=True),
    Register(
        "count_select",
        0xA4,
        _RW,
        "count to be read: class, bits 3:0; Engine, bits 6:4; bit 7: root causes of the array's waits for that engine",
        counts=True,
    ),
    Register("count", 0xA8, _R, "cycles in the last snapshot, of what count_select says", counts=True),
    Register("snapshot_cycles", 0xAC, _R, "value of cycles in the last snapshot, low half", counts=True),
    Register("snapshot_cycles_high", 0xB0, _R, "high half, as of cycles_high", counts=True),
]


def registers_of(config) -> list[Register]:
    """The registers that an accelerator of this configuration has."""
    return [register for register in REGISTERS if config.cycle_counters or not register.counts]


def offset_of(name) -> int:
    """Byte offset of the register called `name`.

    Raises
    ------
    KeyError
        If there is none.
    """
    for register in REGISTERS:
        if register.name == name:
            return register.offset
    raise KeyError(name)
