"""Executes a program in program order on a scratchpad and a DRAM image, command by command.

It knows commands, not layers: what it computes comes from the command fields and the bytes they point to, with
the arithmetic of `docs/architecture.md`. Time and semaphores don't exist here; `bertha.compiler.check.check` proves that
the engines can't see another order.
"""

import math

import numpy as np

from bertha.compiler.hazards.accesses import norm_lines
from bertha.golden.units import reciprocal, requantise, round_half_up, saturate
from bertha.rtl.isa import COMMAND_BYTES, Opcode, Statistics, Table, decode

__all__ = ["Interpreter", "interpret"]


def interpret(program, *, x16, x8, mask=None):
    """The int16 layer output [S, hidden] of a compiled layer."""
    machine = Interpreter(program.config, window=program.window)
    for address, content in program.pieces + program.input_pieces(x16=x16, x8=x8, mask=mask):
        machine.write(address, content)
    machine.run(program.program_address, len(program.commands))
    output = program.output16
    return program.unpack_output(machine.read(output.address, output.nbytes(program.config.array_n)))


class Interpreter:
    """Scratchpad, row slots and tables of one accelerator, and the DRAM in its window.

    Parameters
    ----------
    config : Config
    window : (int, int)
        First byte of DRAM, and first byte after.
    """

    def __init__(self, config, *, window):
        self._n = config.array_n
        self._line = config.line_bytes
        self._config = config
        self._base = window[0]
        self._dram = np.zeros(window[1] - window[0], dtype=np.uint8)
        self._scratchpad = np.zeros((config.lines, config.line_bytes), dtype=np.uint8)
        self._sum = np.zeros((config.row_slots, self._n), dtype=np.int64)
        self._squares = np.zeros((config.row_slots, self._n), dtype=np.int64)
        self._mult = np.zeros((config.row_slots, self._n), dtype=np.int64)
        self._shift = np.zeros((config.row_slots, self._n), dtype=np.int64)
        self._exp2 = np.zeros(64, dtype=np.int64)
        self._segments = np.zeros((256, 2), dtype=np.int64)

    def write(self, address, content) -> None:
        """Puts bytes into DRAM."""
        start = address - self._base
        self._dram[start : start + len(content)] = np.frombuffer(content, dtype=np.uint8)

    def read(self, address, nbytes):
        """Bytes of DRAM."""
        start = address - self._base
        return self._dram[start : start + nbytes].tobytes()

    def run(self, address, count) -> None:
        """Fetches and executes `count` commands from DRAM byte `address` on."""
        code = self.read(address, count * COMMAND_BYTES)
        for start in range(0, len(code), COMMAND_BYTES):
            opcode, fields = decode(code[start : start + COMMAND_BYTES])
            for tile in range(fields["count"] if opcode == Opcode.GEMM else 1):
                self.execute(opcode, fields, tile)

    def execute(self, opcode, fields, tile=0) -> None:
        """Executes one tile of a command; commands other than GEMM have one. Waits and barriers do nothing."""
        if opcode == Opcode.GEMM:
            self._gemm(fields, tile)
            return
        operation = {
            Opcode.LOAD: self._load,
            Opcode.STORE: self._store,
            Opcode.SOFTMAX: self._softmax,
            Opcode.LAYERNORM: self._layernorm,
            Opcode.QUANTIZE: self._quantize,
            Opcode.FACTORS: self._factors,
            Opcode.TABLE: self._table,
        }.get(opcode)
        if operation:
            operation(fields)

    def _lines(self, first, count):
        return self._scratchpad[first : first + count]

    def _words8(self, first, words, *, signed=True):
        """[words, N] 8-bit words."""
        lines = self._lines(first, words // 2)
        return lines.reshape(-1, self._n).view(np.int8 if signed else np.uint8).astype(np.int64)

    def _words16(self, first, words):
        return self._lines(first, words).view("<i2").astype(np.int64)

    def _put8(self, first, words):
        """Writes [words, N] 8-bit words; an odd last one gets a zero word beside it."""
        count = len(words) + (len(words) & 1)
        padded = np.zeros((count, self._n), dtype=np.uint8)
        padded[: len(words)] = np.asarray(words).astype(np.uint8)
        self._lines(first, count // 2)[:] = padded.reshape(-1, self._line)

    def _put16(self, first, words):
        self._lines(first, len(words))[:] = np.ascontiguousarray(words.astype("<i2")).view(np.uint8)

    def _records(self, first, count, dtype):
        nbytes = count * np.dtype(dtype).itemsize
        lines = self._lines(first, -(-nbytes // self._line))
        return lines.reshape(-1)[:nbytes].view(dtype)

    def _rows(self, f):
        for row in range(f["rows"]):
            start = f["dram_addr"] + row * f["dram_stride"] - self._base
            line = f["scratchpad_addr"] + row * f["scratchpad_stride"]
            yield (
                self._dram[start : start + f["lines"] * self._line].reshape(-1, self._line),
                self._lines(line, f["lines"]),
            )

    def _load(self, f):
        for outside, inside in self._rows(f):
            inside[:] = outside

    def _store(self, f):
        for outside, inside in self._rows(f):
            outside[:] = inside

    def _gemm(self, f, tile):
        def place(name):
            return f[f"{name}_addr"] + tile * f[f"{name}_stride"]

        n, columns = self._n, f["columns"]
        slot = f["slot"] + tile * f["slot_step"]
        a = self._words8(place("a"), f["k"], signed=not f["a_unsigned"])
        b = self._words8(place("b"), f["k"])
        # Column by row: the order in which the array drains. Sums are exact in float64.
        accumulator = (b.astype(np.float64).T @ a.astype(np.float64)).astype(np.int64)
        bias = mask = flags = np.zeros((n, 1), dtype=np.int64)
        mult = np.full((n, 1), f["mult"], dtype=np.int64)
        shift = np.full((n, 1), f["shift"], dtype=np.int64)
        post_shift = np.full((n, 1), f["post_shift"], dtype=np.int64)
        if f["params"]:
            records = self._records(
                place("param"), n, np.dtype([("bias", "<i4"), ("mult", "<u2"), ("bits", "<u2")])
            )
            bits = records["bits"].astype(np.int64)[:, None]
            bias = records["bias"].astype(np.int64)[:, None]
            mask, flags = bits >> 10 & 1, bits >> 11 & 1
            if not f["uniform"]:
                mult = records["mult"].astype(np.int64)[:, None]
                shift, post_shift = bits & 63, bits >> 6 & 15
        if f["row_factor"]:
            mult = self._mult[slot]
            shift = np.maximum(self._shift[slot] - f["gain"], 0)
        result = requantise(accumulator + bias, mult, shift)
        if f["piecewise"]:
            base, slope = self._segments[(result + 32768) >> 8].transpose(2, 0, 1)
            result = saturate(base + round_half_up(slope * (result & 255), 8), 16)
        if f["residual"]:
            residual = np.zeros((n, n), dtype=np.int64)
            residual[:columns] = self._words16(place("residual"), columns)
            result = saturate(result + residual, 16)
        result = np.where(mask == 1, -32768, result)[:columns]
        self._gather(f, slot, result)
        if f["out16"]:
            self._put16(place("c"), result)
            return
        wide = round_half_up(result, post_shift[:columns])
        narrow = saturate(wide, 8)
        self._put8(place("c"), narrow)
        if f["residue"]:
            flagged = flags[:columns, 0] == 1
            self._put8(place("residue"), saturate(wide - narrow, 8)[flagged])

    def _gather(self, f, slot, words):
        if f["statistics"] == Statistics.MAX:
            highest = words.max(axis=0)
            self._sum[slot] = highest if f["statistics_init"] else np.maximum(self._sum[slot], highest)
        elif f["statistics"] == Statistics.MOMENTS:
            keep = 0 if f["statistics_init"] else 1
            self._sum[slot] = keep * self._sum[slot] + words.sum(axis=0)
            self._squares[slot] = keep * self._squares[slot] + (words * words).sum(axis=0)

    def _softmax(self, f):
        distance = self._sum[f["slot"]] - self._words16(f["src_addr"], f["words"])
        whole, fraction = distance >> 6, distance & 63
        exact = round_half_up(self._exp2[fraction], 8 + np.minimum(whole, 8))
        probabilities = np.where(whole > 8, 0, exact)
        self._put8(f["dst8_addr"], probabilities)
        self._mult[f["slot"]], self._shift[f["slot"]] = reciprocal(probabilities.sum(axis=0))

    def _norm_records(self, f):
        dtype = np.dtype([("gamma", "<i2"), ("beta", "<i2"), ("mult", "<u2"), ("bits", "<u2")])
        lines = self._lines(f["param_addr"], norm_lines(f["words"], self._config))
        records = lines.reshape(-1)[: 8 * f["words"]].view(dtype)
        return {name: records[name].astype(np.int64)[:, None] for name in dtype.names}

    def _layernorm(self, f):
        words = self._words16(f["src_addr"], f["words"])
        count, records = f["words"], self._norm_records(f)
        total, squares = self._sum[f["slot"]], self._squares[f["slot"]]
        variance = np.maximum(count * squares - total * total + f["epsilon"], 1)
        inverse, scale = np.zeros(self._n, dtype=np.int64), np.zeros(self._n, dtype=np.int64)
        for lane, value in enumerate(variance.tolist()):
            exponent = (56 - value.bit_length()) // 2
            inverse[lane] = ((1 << 35) - 1) // math.isqrt((value << 2 * exponent) >> 16)
            scale[lane] = 31 - exponent
        normal = saturate(round_half_up((count * words - total) * inverse, scale), 18)
        result = saturate(round_half_up(normal * records["gamma"], f["gamma_shift"]) + records["beta"], 16)
        if f["write8"]:
            self._narrow(f, result, records)
        if f["write16"]:
            self._put16(f["dst16_addr"], result)

    def _quantize(self, f):
        self._narrow(f, self._words16(f["src_addr"], f["words"]), self._norm_records(f))

    def _narrow(self, f, words, records):
        wide = saturate(round_half_up(words * records["mult"], f["mult_shift"]), 16)
        narrow = saturate(wide, 8)
        self._put8(f["dst8_addr"], narrow)
        if f["residue"]:
            self._put8(f["residue_addr"], saturate(wide - narrow, 8)[records["bits"][:, 0] & 1 == 1])

    def _factors(self, f):
        records = self._records(f["src_addr"], self._n, np.dtype([("mult", "<u2"), ("bits", "<u2")]))
        self._mult[f["slot"]], self._shift[f["slot"]] = records["mult"], records["bits"] & 63

    def _table(self, f):
        if f["table"] == Table.EXP2:
            self._exp2[:] = self._records(f["src_addr"], 64, "<u2")
        else:
            self._segments[:] = self._records(f["src_addr"], 512, "<i2").reshape(256, 2)
