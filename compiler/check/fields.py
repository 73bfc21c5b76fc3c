"""Rules of a command's fields that can be seen without looking at any other command."""

from bertha.compiler.check.errors import ProgramError, place
from bertha.rtl.isa import MAXIMUM_WORDS, Opcode, semaphore

__all__ = ["SEMAPHORE_FIELDS", "check_fields", "unpack_semaphore"]

SEMAPHORE_FIELDS = ("wait0", "wait1", "post0", "post1")


def unpack_semaphore(value) -> tuple[int, int] | None:
    """(number, amount) of a wait or post field, None if it isn't enabled."""
    return (value >> 8 & 31, value & 255) if value >> 15 else None


def check_fields(number, command, config, window) -> None:
    """Check one command.

    Raises
    ------
    ProgramError
        If a field breaks its rule.
    """
    where, get = place(number, command), command.get

    def require(rule, kept, value):
        if not kept:
            raise ProgramError(f"{where}: {rule}, not {value}")

    def require_words(name, most=1 << 16):
        words = get(name)
        require(
            f"{name} must be even, from 2 to {most}", words >= 2 and words % 2 == 0 and words <= most, words
        )

    try:
        command.encode()
    except ValueError as error:
        raise ProgramError(f"{where}: {error}") from None

    opcode = command.opcode
    if opcode == Opcode.GEMM:
        require_words("k")
        n = config.array_n
        require(f"columns must be from 1 to {n}", 1 <= get("columns") <= n, get("columns"))
        require("count must be at least 1", get("count") >= 1, get("count"))
        require("statistics must be NONE, MAX or MOMENTS", get("statistics") <= 2, get("statistics"))
        require("wide must be NONE, A or B", get("wide") <= 2, get("wide"))
        require("out_wide must go without out16", not (get("out_wide") and get("out16")), "with it")
        require("residue must go with int8 results", not (get("residue") and get("out16")), "with out16")
        require("residue must go with column records", get("params") or not get("residue"), "without params")
        for flag, field in (("wait1_each", "wait1"), ("post0_each", "post0"), ("post1_each", "post1")):
            require(f"{flag} must go with {field}", get(field) or not get(flag), "without it")
    elif opcode in (Opcode.SOFTMAX, Opcode.LAYERNORM, Opcode.QUANTIZE):
        require_words("words", MAXIMUM_WORDS)
        if opcode == Opcode.SOFTMAX:
            most = get("words") if config.hard_attention else 0
            require(f"kept must be from 0 to {most}", get("kept") <= most, get("kept"))
        if opcode == Opcode.LAYERNORM:
            require("write8 or write16 must be set", get("write8") or get("write16"), "neither")
            require("residue must go with write8", get("write8") or not get("residue"), "without it")
            require("wide must go with write8", get("write8") or not get("wide"), "without it")
    elif opcode in (Opcode.LOAD, Opcode.STORE):
        require("lines must be at least 1", get("lines") >= 1, get("lines"))
        require("rows must be at least 1", get("rows") >= 1, get("rows"))
        _check_dram(require, get, config, window)
    for name in SEMAPHORE_FIELDS:
        _check_semaphore(require, name, get(name), config)


def _check_dram(require, get, config, window):
    line = config.line_bytes
    require(f"dram_addr must be a multiple of {line}", get("dram_addr") % line == 0, get("dram_addr"))
    require(f"dram_stride must be a multiple of {line}", get("dram_stride") % line == 0, get("dram_stride"))
    end = get("dram_addr") + (get("rows") - 1) * get("dram_stride") + get("lines") * line
    require(
        f"DRAM bytes must be in the window {window[0]:#x} to {window[1]:#x}",
        window[0] <= get("dram_addr") and end <= window[1],
        f"{get('dram_addr'):#x} to {end:#x}",
    )


def _check_semaphore(require, name, value, config):
    if not value:
        return
    unit = unpack_semaphore(value)
    require(f"{name} must be enabled or zero", unit is not None, f"{value:#x}")
    number, amount = unit
    require(f"{name} must take or post at least 1 unit", amount >= 1, amount)
    require(f"{name} must have its reserved bits zero", value == semaphore(number, amount), f"{value:#x}")
    require(f"{name} must name one of the {config.semaphores} semaphores", number < config.semaphores, number)
