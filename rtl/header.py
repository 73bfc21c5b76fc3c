"""The C header of registers and commands, from their declarations."""

from bertha.rtl.counters.classes import CycleClass
from bertha.rtl.isa import COMMAND_BYTES, COMMANDS, Engine, FaultReason, Opcode, Statistics, Table, Wide
from bertha.rtl.registers import IDENTITY, REGISTERS

__all__ = ["text"]


def _enum(lines, prefix, members):
    for member in members:
        lines.append(f"#define BERTHA_{prefix}_{member.name} {member.value:#04x}u")
    lines.append("")


def text(config) -> str:
    """The header for one configuration.

    Parameters
    ----------
    config : Config
    """
    lines = [
        "/* Registers and commands of the accelerator. Generated: change rtl/isa.py and",
        "   rtl/registers.py instead. A command is BERTHA_COMMAND_BYTES bytes, little-endian; a",
        "   field FIELD of OPCODE is _WIDTH bits from bit _LSB of 32-bit word _WORD. */",
        "#ifndef BERTHA_H",
        "#define BERTHA_H",
        "",
        f"#define BERTHA_IDENTITY {IDENTITY:#010x}u",
        f"#define BERTHA_COMMAND_BYTES {COMMAND_BYTES}u",
    ]
    for name, value in config.as_dict().items():
        lines.append(f"#define BERTHA_{name.upper()} {value}u")
    lines.append("")
    for register in REGISTERS:
        lines.append(
            f"#define BERTHA_REG_{register.name.upper()} {register.offset:#04x}u"
            f" /* {register.access.value}: {register.doc} */"
        )
    lines.append("")
    _enum(lines, "ENGINE", Engine)
    _enum(lines, "OP", Opcode)
    _enum(lines, "FAULT", FaultReason)
    _enum(lines, "CYCLES", CycleClass)
    _enum(lines, "STATISTICS", Statistics)
    _enum(lines, "WIDE", Wide)
    _enum(lines, "TABLE", Table)
    for opcode, fields in COMMANDS.items():
        for field in fields:
            name = f"BERTHA_{opcode.name}_{field.name.upper()}"
            lines.append(f"#define {name}_WORD {field.word}u /* {field.doc} */")
            lines.append(f"#define {name}_LSB {field.low}u")
            lines.append(f"#define {name}_WIDTH {field.width}u")
        lines.append("")
    lines.append("#endif")
    return "\n".join(lines) + "\n"
