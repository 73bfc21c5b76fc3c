"""Executes a program in program order on a scratchpad and a DRAM image, command by command.

It knows commands, not layers: what it computes comes from the command fields and the bytes they point to. Time and
semaphores don't exist here; `bertha.compiler.check.check` proves that the engines can't see another order.

The arithmetic is `bertha.golden.units`', as it is in the integer model: the two don't check each other there. The RTL
checks both, on random data over all encodings (`tests/rtl/gemm/test_agreement.py`, `tests/rtl/vector/test_agreement.py`).
"""

import numpy as np

from bertha.compiler.layout.records import record_bytes, unpack_records
from bertha.golden import units
from bertha.rtl.isa import (
    COMMAND_BYTES,
    EXP2_ENTRIES,
    SEGMENTS,
    ColumnRecord,
    FactorRecord,
    NormRecord,
    Opcode,
    RangeRecord,
    SegmentRecord,
    Statistics,
    Table,
    Wide,
    decode,
)

__all__ = ["Interpreter", "interpret"]


def interpret(program, **inputs) -> np.ndarray:
    """The int16 output [S, hidden] of a compiled program, from the inputs that `program.input_pieces` names."""
    machine = Interpreter(program.config, window=program.window)
    for address, content in program.pieces + program.input_pieces(**inputs):
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

    Attributes
    ----------
    scratchpad : uint8 [lines, line_bytes]
    sums, squares, mults, shifts : int64 [slots, N]
        Row statistics and row factors.
    firsts, lasts : int64 [slots, N]
        Row ranges.
    """

    def __init__(self, config, *, window):
        self._n = config.array_n
        self._line = config.line_bytes
        self._config = config
        self._base = window[0]
        self._dram = np.zeros(window[1] - window[0], dtype=np.uint8)
        self.scratchpad = np.zeros((config.lines, config.line_bytes), dtype=np.uint8)
        self.sums = np.zeros((config.row_slots, self._n), dtype=np.int64)
        self.squares = np.zeros((config.row_slots, self._n), dtype=np.int64)
        self.mults = np.zeros((config.row_slots, self._n), dtype=np.int64)
        self.shifts = np.zeros((config.row_slots, self._n), dtype=np.int64)
        self.firsts = np.zeros((config.row_slots, self._n), dtype=np.int64)
        self.lasts = np.zeros((config.row_slots, self._n), dtype=np.int64)
        self._exp2 = np.zeros(EXP2_ENTRIES, dtype=np.int64)
        self._segments = {name: np.zeros(SEGMENTS, dtype=np.int64) for name in ("base", "slope")}

    def write(self, address, content) -> None:
        """Puts bytes into DRAM."""
        start = address - self._base
        self._dram[start : start + len(content)] = np.frombuffer(content, dtype=np.uint8)

    def read(self, address, nbytes) -> bytes:
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
            Opcode.RANGES: self._ranges,
        }.get(opcode)
        if operation:
            operation(fields)

    def _lines(self, first, count):
        return self.scratchpad[first : first + count]

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
        self.put(first, padded.reshape(-1, self._line), bits=8)

    def _put16(self, first, words):
        self.put(first, np.ascontiguousarray(words.astype("<i2")).view(np.uint8), bits=16)

    def put(self, first, lines, *, bits) -> None:
        """Writes lines, uint8 [count, line_bytes] with words of so many bits, from line `first` on."""
        self._lines(first, len(lines))[:] = lines

    def _bytes(self, first, count):
        return self._lines(first, -(-count // self._line)).reshape(-1)[:count]

    def _records(self, record, first, count):
        return unpack_records(record, self._bytes(first, count * record_bytes(record)))

    def _rows(self, f):
        for row in range(f["rows"]):
            start = f["dram_addr"] + row * f["dram_stride"] - self._base
            line = f["scratchpad_addr"] + row * f["scratchpad_stride"]
            yield self._dram[start : start + f["lines"] * self._line].reshape(-1, self._line), line

    def _load(self, f):
        for outside, line in self._rows(f):
            self.put(line, outside, bits=8)

    def _store(self, f):
        for outside, line in self._rows(f):
            outside[:] = self._lines(line, f["lines"])

    def _gemm(self, f, tile):
        def place(name):
            return (f[f"{name}_addr"] + tile * f[f"{name}_stride"]) % (1 << 24)

        n, columns = self._n, f["columns"]
        slot = f["slot"] + tile * f["slot_step"]
        accumulator = self._products(f, place("a"), place("b"))
        if f["wide"]:
            places = [
                (place(name) + f["low_offset"] * (f["wide"] == wide)) % (1 << 24)
                for name, wide in (("a", Wide.A), ("b", Wide.B))
            ]
            accumulator = units.combine_wide(accumulator, self._products(f, *places))
        zeros = np.zeros((n, 1), dtype=np.int64)
        record = {"bias": zeros, "mask": zeros, "residue": zeros}
        record |= {name: zeros + f[name] for name in ("mult", "shift", "post_shift")}
        if f["params"]:
            found = self._records(ColumnRecord, place("param"), n)
            for name in ("mult", "shift", "post_shift") if f["uniform"] else ():
                del found[name]
            record |= {name: values[:, None] for name, values in found.items()}
        mult, shift = record["mult"], record["shift"]
        if f["row_factor"]:
            mult = self.mults[slot]
            shift = np.maximum(self.shifts[slot] - f["gain"], 0)
        result = units.requantise(accumulator + record["bias"], mult, shift)
        if f["piecewise"]:
            result = units.piecewise(result, self._segments["base"], self._segments["slope"])
        if f["residual"]:
            residual = np.zeros((n, n), dtype=np.int64)
            residual[:columns] = self._words16(place("residual"), columns)
            result = units.saturate(result + residual, 16)
        if f["statistics"] == Statistics.MAX:
            result = np.maximum(result, units.LOWEST_SCORE)
        masked = record["mask"] == 1
        if f["ranges"]:
            keys = (f["first_key"] + tile * f["key_step"] + np.arange(n)[:, None]) % (1 << 16)
            masked = masked | (keys < self.firsts[slot]) | (keys >= self.lasts[slot])
        result = np.where(masked, units.MASKED_SCORE, result)[:columns]
        self._gather(f, slot, result)
        if f["out16"]:
            self._put16(place("c"), result)
            return
        wide = units.round_half_up(result, record["post_shift"][:columns])
        if f["out_wide"]:
            high, low = units.split_wide(wide)
            self._put8(place("c"), high)
            self._put8(place("residue"), low)
            return
        self._put8(place("c"), units.saturate(wide, 8))
        if f["residue"]:
            self._put8(place("residue"), units.residue(wide)[record["residue"][:columns, 0] == 1])

    def _products(self, f, a_line, b_line):
        """Sums of products, column by row: the order in which the array drains. Exact in float64."""
        a = self._words8(a_line, f["k"], signed=not f["a_unsigned"])
        b = self._words8(b_line, f["k"])
        return (b.astype(np.float64).T @ a.astype(np.float64)).astype(np.int64)

    def _gather(self, f, slot, words):
        """Continues the slot's statistics; Σx² goes along with the maximum too."""
        if f["statistics"] == Statistics.NONE:
            return
        is_max = f["statistics"] == Statistics.MAX
        total, squares = self.sums[slot], self.squares[slot]
        if f["statistics_init"]:
            total, squares = np.full(self._n, units.MASKED_SCORE if is_max else 0), 0
        if is_max:
            self.sums[slot] = np.maximum(_signed(total, 16), words.max(axis=0))
        else:
            self.sums[slot] = _signed(total + words.sum(axis=0), units.SUM_BITS)
        self.squares[slot] = (squares + (words * words).sum(axis=0)) & ((1 << units.SQUARES_BITS) - 1)

    def _softmax(self, f):
        scores = self._words16(f["src_addr"], f["words"])
        maximum = _signed(self.sums[f["slot"]], 16)
        probabilities, mult, shift = units.softmax(
            scores.T, self._exp2, maximum, kept=f["kept"], whole_sum=bool(f["whole_sum"])
        )
        self._put8(f["dst8_addr"], probabilities.T)
        self.mults[f["slot"]], self.shifts[f["slot"]] = mult, shift

    def _layernorm(self, f):
        words = self._words16(f["src_addr"], f["words"])
        records = self._records(NormRecord, f["param_addr"], f["words"])
        row_moments = self.sums[f["slot"]], self.squares[f["slot"]]
        result = units.layernorm(
            words.T, records["gamma"], records["beta"], f["gamma_shift"], f["epsilon"], row_moments
        ).T
        self._narrow(f, result, records, write8=f["write8"])
        if f["write16"]:
            self._put16(f["dst16_addr"], result)

    def _quantize(self, f):
        words = self._words16(f["src_addr"], f["words"])
        self._narrow(f, words, self._records(NormRecord, f["param_addr"], f["words"]))

    def _narrow(self, f, words, records, *, write8=True):
        wide = units.quantise(words, records["mult"][:, None], f["mult_shift"])
        if f["wide"]:
            high, low = units.split_wide(wide)
            if write8:
                self._put8(f["dst8_addr"], high)
            self._put8(f["residue_addr"], low)
            return
        if write8:
            self._put8(f["dst8_addr"], units.saturate(wide, 8))
        if f["residue"]:
            self._put8(f["residue_addr"], units.residue(wide)[records["residue"] == 1])

    def _factors(self, f):
        records = self._records(FactorRecord, f["src_addr"], self._n)
        self.mults[f["slot"]], self.shifts[f["slot"]] = records["mult"], records["shift"]

    def _ranges(self, f):
        records = self._records(RangeRecord, f["src_addr"], self._n)
        self.firsts[f["slot"]], self.lasts[f["slot"]] = records["first"], records["last"]

    def _table(self, f):
        if f["table"] == Table.EXP2:
            self._exp2 = self._bytes(f["src_addr"], 2 * EXP2_ENTRIES).view("<u2").astype(np.int64)
        else:
            self._segments = self._records(SegmentRecord, f["src_addr"], SEGMENTS)


def _signed(value, bits):
    """The low bits of an integer as a signed number."""
    return ((value + (1 << bits - 1)) & ((1 << bits) - 1)) - (1 << bits - 1)
