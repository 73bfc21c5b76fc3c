"""Damages programs, and tells what the accelerator must say about it where only one answer is right."""

from dataclasses import dataclass, replace

import numpy as np

from bertha.rtl.isa import (
    COMMAND_BYTES,
    COMMANDS,
    Engine,
    FaultReason,
    Opcode,
    Wide,
    encode,
    reserved_mask,
    semaphore,
)

__all__ = ["ANY", "Expected", "damage", "fields_of", "ruin", "stored"]

VECTOR = (Opcode.SOFTMAX, Opcode.LAYERNORM, Opcode.QUANTIZE, Opcode.FACTORS, Opcode.RANGES, Opcode.TABLE)
WORDS = (Opcode.SOFTMAX, Opcode.LAYERNORM, Opcode.QUANTIZE)


@dataclass(frozen=True)
class Expected:
    """How a program must end: with this fault, or, without a reason, done. What is None isn't told."""

    reason: FaultReason | None = None
    engine: Engine | None = None
    index: int | None = None


ANY = None
"""Stands for an `Expected` where any end is right."""


def _commands(case):
    return [case.code[start : start + COMMAND_BYTES] for start in range(0, len(case.code), COMMAND_BYTES)]


def fields_of(command):
    """Opcode (None if it is unknown) and fields of a command's bytes, whatever else is wrong with it."""
    word = int.from_bytes(command, "little")
    try:
        opcode = Opcode(word & 0xFF)
    except ValueError:
        return None, {}
    return opcode, {
        f.name: word >> f.offset & (1 << f.width) - 1 for f in COMMANDS[opcode] if f.name != "opcode"
    }


def stored(case, *, config, first=0, end=None):
    """Which bytes of the memory the STOREs among commands `first` to `end` may write (bool array).

    A STORE writes nothing if its fields are against the rules, else the rows and parts of rows before the
    first place that is outside of the window or the scratchpad.
    """
    mask = np.zeros(len(case.before), bool)
    line = config.line_bytes
    start, limit = case.window
    for command in _commands(case)[first:end]:
        opcode, fields = fields_of(command)
        if opcode != Opcode.STORE or fields["dram_addr"] % line or fields["dram_stride"] % line:
            continue
        address, place = fields["dram_addr"], fields["scratchpad_addr"]
        for _ in range(fields["rows"]):
            if place + fields["lines"] > config.lines or not start <= address < limit:
                break
            stop = min(address + fields["lines"] * line, limit)
            mask[address - case.base : stop - case.base] = True
            if stop < address + fields["lines"] * line:
                break
            if not fields["dram_stride"] and not fields["scratchpad_stride"]:
                break  # the same row again
            address += fields["dram_stride"]
            place += fields["scratchpad_stride"]
    return mask


def damage(generator, config, case):
    """A copy of a legal case with one fault in it: (case, Expected)."""
    changes = list(_DAMAGES)
    generator.shuffle(changes)
    for change in changes:
        found = change(_Damage(generator, config, case))
        if found is not None:
            code, expected = found
            return replace(case, code=code, after=None, before=case.before.copy()), expected
    raise ValueError("a case must have a command that can be damaged")


class _Damage:
    """A case that is about to be damaged: its commands, and how to change one of them."""

    def __init__(self, generator, config, case):
        self.random, self.config, self.case = generator, config, case
        self.commands = [(number, *fields_of(command)) for number, command in enumerate(_commands(case))]

    def integer(self, low, high):
        return int(self.random.integers(low, high, endpoint=True))

    def one_of(self, choices):
        return choices[self.integer(0, len(choices) - 1)]

    def pick(self, *opcodes, where=lambda fields: True):
        """A random command of these opcodes: (number, opcode, fields); None if there is none."""
        found = [
            (number, opcode, fields)
            for number, opcode, fields in self.commands
            if opcode in opcodes and where(fields)
        ]
        return self.one_of(found) if found else None

    def change(self, number, **values):
        """The code with some fields of a command changed."""
        opcode, fields = self.commands[number][1:]
        return self.replace(number, encode(opcode, **{**fields, **values}))

    def replace(self, number, command):
        start = number * COMMAND_BYTES
        return self.case.code[:start] + command + self.case.code[start + COMMAND_BYTES :]

    def free_semaphore(self):
        """The number of a semaphore that the program doesn't use; None if there is none."""
        used = {
            fields.get(name, 0) >> 8 & 31
            for _, _, fields in self.commands
            for name in ("wait0", "wait1", "post0", "post1")
            if fields.get(name, 0)
        }
        free = [number for number in range(self.config.semaphores) if number not in used]
        return self.one_of(free) if free else None


def _illegal(number):
    return Expected(FaultReason.ILLEGAL_COMMAND, Engine.SEQUENCER, number)


def _at(reason, opcode, number):
    return Expected(reason, opcode.engine, number)


def _unknown_opcode(d):
    number = d.integer(0, len(d.commands) - 1)
    unknown = [value for value in range(256) if value not in list(Opcode)]
    command = bytearray(d.case.code[number * COMMAND_BYTES : (number + 1) * COMMAND_BYTES])
    command[0] = d.one_of(unknown)
    return d.replace(number, bytes(command)), _illegal(number)


def _reserved_bit(d):
    number = d.integer(0, len(d.commands) - 1)
    mask = reserved_mask(d.commands[number][1])
    bit = d.one_of([bit for bit in range(mask.bit_length()) if mask >> bit & 1])
    word = int.from_bytes(d.case.code[number * COMMAND_BYTES : (number + 1) * COMMAND_BYTES], "little")
    return d.replace(number, (word | 1 << bit).to_bytes(COMMAND_BYTES, "little")), _illegal(number)


def _no_units(d):
    number, opcode, fields = d.one_of(d.commands)
    names = [name for name in ("wait0", "wait1", "post0", "post1") if name in fields]
    if not names:
        return None
    name = d.one_of(names)
    return d.change(number, **{name: 1 << 15 | d.integer(0, 31) << 8}), _illegal(number)


def _outside_window(d):
    found = d.pick(Opcode.LOAD, Opcode.STORE)
    if found is None:
        return None
    number, opcode, fields = found
    line = d.config.line_bytes
    start, end = d.case.window
    size = fields["lines"] * line
    top = 1 << 64
    address = d.one_of(
        [
            start - line,
            start - line * d.integer(1, 2000),
            end - size + line,
            end - size + line * d.integer(1, fields["lines"]),
            end + line * d.integer(0, 1000),
            top - line * d.integer(1, fields["lines"]),
            fields["dram_addr"] + (1 << d.integer(d.config.axi_addr_bits, 63)),
        ]
    )
    far = (1 << 32) - line * d.integer(1, 1000)
    if fields["rows"] > 1 and d.integer(0, 3) == 0:
        code = d.change(number, dram_stride=far)
    elif not 0 <= address <= top - line or start <= address <= end - size:
        return None
    else:
        code = d.change(number, dram_addr=address)
    return code, _at(FaultReason.DRAM_WINDOW, opcode, number)


def _misaligned(d):
    found = d.pick(Opcode.LOAD, Opcode.STORE)
    if found is None:
        return None
    number, opcode, fields = found
    name = d.one_of(["dram_addr", "dram_stride"])
    code = d.change(number, **{name: fields[name] + d.integer(1, d.config.line_bytes - 1)})
    return code, _at(FaultReason.MISALIGNED, opcode, number)


def _empty_transfer(d):
    found = d.pick(Opcode.LOAD, Opcode.STORE)
    if found is None:
        return None
    number, opcode, _ = found
    return d.change(number, **{d.one_of(["lines", "rows"]): 0}), _at(
        FaultReason.ILLEGAL_COMMAND, opcode, number
    )


def _operands(opcode, fields, config):
    """Address fields of a command with the lines that it takes from there."""
    if opcode in (Opcode.LOAD, Opcode.STORE):
        return {"scratchpad_addr": fields["lines"]}
    if opcode == Opcode.GEMM:
        result = {
            f"{name}_addr": fields["k"] // 2 + fields["low_offset"] * (fields["wide"] == wide)
            for name, wide in (("a", Wide.A), ("b", Wide.B))
        }
        result["c_addr"] = fields["columns"] if fields["out16"] else (fields["columns"] + 1) // 2
        if fields["params"]:
            result["param_addr"] = 8 * config.array_n // config.line_bytes
        if fields["residual"]:
            result["residual_addr"] = fields["columns"]
        if fields["out_wide"]:
            result["residue_addr"] = (fields["columns"] + 1) // 2
        return result
    if opcode in (Opcode.FACTORS, Opcode.RANGES):
        return {"src_addr": 2}
    if opcode == Opcode.TABLE:
        return {"src_addr": (1024 if fields["table"] else 128) // config.line_bytes}
    words = fields["words"]
    result = {"src_addr": words}
    if opcode == Opcode.SOFTMAX or opcode == Opcode.QUANTIZE or fields["write8"]:
        result["dst8_addr"] = words // 2
    if fields.get("wide"):
        result["residue_addr"] = words // 2
    if opcode != Opcode.SOFTMAX:
        result["param_addr"] = -(-8 * words // config.line_bytes)
    if opcode == Opcode.LAYERNORM and fields["write16"]:
        result["dst16_addr"] = words
    return result


def _outside_scratchpad(d):
    found = d.pick(Opcode.LOAD, Opcode.STORE, Opcode.GEMM, *VECTOR)
    if found is None:
        return None
    number, opcode, fields = found
    name, lines = d.one_of(list(_operands(opcode, fields, d.config).items()))
    value = d.one_of(
        [d.config.lines - d.integer(0, lines - 1), d.integer(d.config.lines, (1 << 24) - 1), (1 << 24) - 1]
    )
    return d.change(number, **{name: value}), _at(FaultReason.SCRATCHPAD_RANGE, opcode, number)


def _gemm_rule(d):
    found = d.pick(Opcode.GEMM)
    if found is None:
        return None
    number, opcode, fields = found
    n, slots = d.config.array_n, d.config.row_slots
    values = d.one_of(
        [
            {"k": 0},
            {"k": fields["k"] + 1},
            {"columns": 0},
            {"columns": d.integer(n + 1, 255)},
            {"count": 0},
            {"statistics": 3},
            {"out16": 1, "residue": 1},
            {"out16": 1, "out_wide": 1},
            {"wide": 3},
            {"ranges": 1, "slot": d.integer(slots, 255)},
            {"statistics": d.integer(1, 2), "slot": d.integer(slots, 255)},
            {"row_factor": 1, "slot": d.integer(slots, 255)},
        ]
    )
    return d.change(number, **values), _at(FaultReason.ILLEGAL_COMMAND, opcode, number)


def _vector_rule(d):
    found = d.pick(*VECTOR, where=lambda fields: "table" not in fields)
    if found is None:
        return None
    number, opcode, fields = found
    values = []
    if opcode in WORDS:
        values += [{"words": 0}, {"words": fields["words"] + 1}, {"words": 2 * d.integer(2049, 32767)}]
    if opcode == Opcode.SOFTMAX:
        values.append({"kept": d.integer(fields["words"] * d.config.hard_attention + 1, 8191)})
    if "slot" in fields:
        values.append({"slot": d.integer(d.config.row_slots, 255)})
    return d.change(number, **d.one_of(values)), _at(FaultReason.ILLEGAL_COMMAND, opcode, number)


def _deadlock(d):
    """A wait for a semaphore that nobody posts: the commands before it end, so it is the oldest that waits."""
    free = d.free_semaphore()
    number, opcode, fields = d.one_of(d.commands)
    names = [name for name in ("wait0", "wait1") if name in fields and not fields[name]]
    if free is None or not names:
        return None
    unit = semaphore(free, d.integer(1, 255))
    return d.change(number, **{d.one_of(names): unit}), _at(FaultReason.DEADLOCK, opcode, number)


def _overflow(d):
    """Posts beyond a semaphore's limit. Which command is named depends on how far the engine is by then."""
    free = d.free_semaphore()
    found = d.pick(
        Opcode.LOAD, Opcode.STORE, Opcode.GEMM, *VECTOR, where=lambda f: not f["post0"] and not f["post1"]
    )
    if free is None or found is None:
        return None
    number, opcode, _ = found
    first = d.integer(1, 255)
    second = d.integer(256 - first, 255)
    code = d.change(number, post0=semaphore(free, first), post1=semaphore(free, second))
    return code, Expected(FaultReason.SEMAPHORE_OVERFLOW, opcode.engine)


_DAMAGES = [
    _unknown_opcode,
    _reserved_bit,
    _no_units,
    _outside_window,
    _outside_window,
    _misaligned,
    _empty_transfer,
    _outside_scratchpad,
    _outside_scratchpad,
    _outside_scratchpad,
    _gemm_rule,
    _gemm_rule,
    _vector_rule,
    _deadlock,
    _deadlock,
    _overflow,
]


def ruin(generator, config, case):
    """A copy of a case whose commands were changed at random, several times."""
    commands = _commands(case)
    for _ in range(int(generator.integers(1, 5))):
        if not commands:
            break
        number = int(generator.integers(len(commands)))
        word = int.from_bytes(commands[number], "little")
        match int(generator.integers(6)):
            case 0:
                word ^= 1 << int(generator.integers(8 * COMMAND_BYTES))
            case 1 | 2:
                word = _random_field(generator, word)
            case 3:
                del commands[number]
                continue
            case 4:
                commands.insert(int(generator.integers(len(commands) + 1)), commands[number])
                continue
            case 5:
                opcode = list(Opcode)[int(generator.integers(len(Opcode)))]
                word = int.from_bytes(generator.bytes(COMMAND_BYTES), "little")
                word = word & ~0xFF & ~reserved_mask(opcode) | opcode
                for _ in range(int(generator.integers(30))):
                    word = _random_field(generator, word)
        commands[number] = word.to_bytes(COMMAND_BYTES, "little")
    return replace(case, code=b"".join(commands), after=None, before=case.before.copy())


def _random_field(generator, word):
    """A random value in one of the command's fields."""
    opcode, _ = fields_of((word).to_bytes(COMMAND_BYTES, "little"))
    if opcode is None:
        return word
    field = COMMANDS[opcode][int(generator.integers(len(COMMANDS[opcode])))]
    if field.name == "opcode":
        value = int(list(Opcode)[int(generator.integers(len(Opcode)))])
    else:
        value = int(generator.integers(0, 1 << min(field.width, 63))) >> int(generator.integers(field.width))
    return word & ~((1 << field.width) - 1 << field.offset) | value << field.offset
