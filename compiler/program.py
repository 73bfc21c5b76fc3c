"""A compiled program: commands, the DRAM image they work on, and where inputs and outputs lie in it."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from bertha.compiler.layout.panels import pack, panel_count, unpack
from bertha.compiler.layout.records import (
    COLUMN_RECORD_BYTES,
    RANGE_RECORD_BYTES,
    mask_records,
    range_records,
)
from bertha.rtl.config import Config
from bertha.rtl.isa import COMMAND_BYTES, COMMANDS, Engine, Opcode, encode

__all__ = ["GEMM_STRIDES", "Command", "Operand", "Program", "Work", "check_ranges"]


GEMM_STRIDES = {
    "a_addr": "a_stride",
    "b_addr": "b_stride",
    "c_addr": "c_stride",
    "residue_addr": "residue_stride",
    "residual_addr": "residual_stride",
    "param_addr": "param_stride",
    "slot": "slot_step",
    "first_key": "key_step",
}
"""Fields of a GEMM that change from tile to tile, and those that say by how much."""


class Work(NamedTuple):
    """The model's own multiply-accumulates in a tile: those of the tokens of `rows` (with those of `keys`).

    Attributes
    ----------
    each : int
        Multiply-accumulates of one token, or of a pair of a token and a key; neither duplicated columns nor second
        passes are counted.
    rows : range
        Tokens.
    keys : range or None
        Tokens that each of the rows may meet, in attention.
    """

    each: int
    rows: range
    keys: range | None = None

    def macs(self, ranges=None) -> int:
        """Multiply-accumulates of all tokens, or those of `ranges` alone: int [S, 2], the keys that a row sees.

        A row that sees no key is padding.
        """
        if ranges is None:
            return self.each * len(self.rows) * (1 if self.keys is None else len(self.keys))
        first, last = ranges[self.rows.start : self.rows.stop].T
        if self.keys is None:
            return self.each * int(np.count_nonzero(first < last))
        seen = np.minimum(last, self.keys.stop) - np.maximum(first, self.keys.start)
        return self.each * int(np.maximum(seen, 0).sum())


@dataclass(kw_only=True)
class Command:
    """One command with what reports want to know about it.

    Attributes
    ----------
    opcode : Opcode
    fields : dict
        By the names of `bertha.rtl.isa.COMMANDS`; what is absent is zero.
    name : str
        The operation, e.g. "layer0.scores.head3".
    work : tuple of Work
        The model's own arithmetic in each tile; empty if there is none.
    residue_words : tuple of int
        Flagged columns of each tile (GEMM) or of the pass (LAYERNORM, QUANTIZE).
    dram_bytes : int
        Bytes that it moves to or from DRAM.
    flagged : tuple of int
        Of a LAYERNORM or QUANTIZE that writes residues: its flagged words, ascending. For predictions alone.
    """

    opcode: Opcode
    fields: dict
    name: str
    work: tuple = ()
    residue_words: tuple = ()
    dram_bytes: int = 0
    flagged: tuple = ()

    @property
    def engine(self) -> Engine:
        return self.opcode.engine

    @property
    def tiles(self) -> int:
        """Tiles of a GEMM; 1 for every other command."""
        return self.fields["count"] if self.opcode == Opcode.GEMM else 1

    def macs(self, ranges=None) -> int:
        """The model's own multiply-accumulates in it, see `Work.macs`."""
        return sum(work.macs(ranges) for work in self.work)

    def get(self, name) -> int:
        """Value of a field; zero if it isn't set."""
        return self.fields.get(name, 0)

    def encode(self) -> bytes:
        """The command's bytes."""
        return encode(self.opcode, **self.fields)

    def __str__(self):
        names = {f.name for f in COMMANDS[self.opcode]}
        shown = ", ".join(f"{k}={v}" for k, v in self.fields.items() if k in names and v)
        return f"{self.opcode.name}({shown})"


@dataclass(frozen=True, kw_only=True)
class Operand:
    """A matrix in DRAM as panels: `rows` x `words` values of `dtype` from byte `address` on."""

    address: int
    rows: int
    words: int
    dtype: str

    def nbytes(self, n) -> int:
        """Bytes that it takes."""
        return panel_count(self.rows, n) * n * (self.words + (self.words & 1)) * np.dtype(self.dtype).itemsize

    def pack(self, matrix, n) -> bytes:
        """Its bytes, from a matrix of its shape."""
        matrix = np.asarray(matrix)
        if matrix.shape != (self.rows, self.words):
            raise ValueError(
                f"the matrix must have the shape [{self.rows}, {self.words}], not {list(matrix.shape)}"
            )
        return pack(matrix, n, dtype=self.dtype).tobytes()

    def unpack(self, data, n) -> np.ndarray:
        """The matrix, from its bytes."""
        return unpack(
            np.frombuffer(bytes(data), dtype=np.uint8), n, rows=self.rows, words=self.words, dtype=self.dtype
        )


@dataclass(kw_only=True)
class Program:
    """What a host needs to run a model, or layers of one.

    Attributes
    ----------
    config : Config
    commands : list of Command
    pieces : list of (int, bytes)
        DRAM image: weights, parameters, tables and the program itself.
    program_address : int
    window : (int, int)
        First byte of DRAM that is accessed, and first byte after.
    scratch : list of (int, int)
        First byte and bytes of every region of DRAM that the program uses for itself: what is there doesn't
        matter before, and isn't a result after.
    x16 : Operand
        int16 input [S, hidden]: sums of embeddings, or the first layer's input.
    x8 : Operand or None
        Where the host gives it: the int8 operand of the first layer, with the residues of the flagged features
        (or the low plane) behind the features (`bertha.golden.integer_model.quantise_operand`).
    ranges_address : int
        Range records of the rows.
    mask_address : int or None
        Column records of the key mask, if there is one.
    ranges : int [S, 2] or None
        What the program was compiled for: it serves no other ranges. None: it serves all.
    output16 : Operand
        int16 output [S, hidden] of the last layer.
    name : str
    plan : Plan

    From `x16` to `output16` and `plan` are None in a program that wasn't compiled from layers: all its data is
    in `pieces`, and it stores into `scratch`.
    """

    config: Config
    commands: list
    pieces: list
    program_address: int
    window: tuple
    scratch: list = field(default_factory=list)
    x16: Operand | None = None
    x8: Operand | None = None
    ranges_address: int | None = None
    mask_address: int | None = None
    ranges: np.ndarray | None = None
    output16: Operand | None = None
    name: str = "model"
    plan: object = field(default=None, repr=False)

    @property
    def code(self) -> bytes:
        """The commands as bytes."""
        return b"".join(command.encode() for command in self.commands)

    @property
    def code_bytes(self) -> int:
        return COMMAND_BYTES * len(self.commands)

    @property
    def tokens(self) -> int:
        """Tokens (S) that it takes."""
        return self.x16.rows

    @property
    def macs(self) -> int:
        """The model's own multiply-accumulates, those of padding tokens among them."""
        return sum(command.macs() for command in self.commands)

    @property
    def inputs(self) -> list[tuple[int, int]]:
        """Regions of DRAM, as (first byte, bytes), that the host fills for each run."""
        if self.x16 is None:
            return []
        n = self.config.array_n
        rows = panel_count(self.x16.rows, n) * n
        regions = [(self.x16.address, self.x16.nbytes(n)), (self.ranges_address, RANGE_RECORD_BYTES * rows)]
        if self.x8 is not None:
            regions.append((self.x8.address, self.x8.nbytes(n)))
        if self.mask_address is not None:
            regions.append((self.mask_address, COLUMN_RECORD_BYTES * rows))
        return regions

    @property
    def stores(self) -> list[tuple[int, int]]:
        """Regions of DRAM, as (first byte, bytes), that the program may change: results and scratch."""
        if self.output16 is None:
            return list(self.scratch)
        return [(self.output16.address, self.output16.nbytes(self.config.array_n)), *self.scratch]

    def input_pieces(self, *, x16, x8=None, ranges=None, key_mask=None) -> list[tuple[int, bytes]]:
        """Pieces of DRAM for one run.

        Parameters
        ----------
        x16 : int16 [S, hidden]
        x8 : int8 [S, hidden + residues], where the program takes it
        ranges : int [S, 2], optional
            The keys that each row sees, from the first up to, not including, the last; by default what the
            program was compiled for, or all. A padding row has (0, 0).
        key_mask : bool [S], optional
            False for keys that nobody sees, if the program has a key mask.

        Raises
        ------
        ValueError
            If a shape is wrong, or the program wasn't compiled for the ranges or for a mask.
        """
        n, tokens = self.config.array_n, self.tokens
        if ranges is None:
            ranges = np.tile((0, tokens), (tokens, 1)) if self.ranges is None else self.ranges
        ranges = check_ranges(ranges, tokens)
        if self.ranges is not None and not np.array_equal(ranges, self.ranges):
            raise ValueError("the ranges must be those that the program was compiled for")
        if key_mask is not None and self.mask_address is None:
            raise ValueError("a key mask needs a program that was compiled with one")
        pieces = [
            (self.x16.address, self.x16.pack(x16, n)),
            (self.ranges_address, range_records(ranges, tokens, n)),
        ]
        if self.x8 is not None:
            pieces.append((self.x8.address, self.x8.pack(x8, n)))
        if self.mask_address is not None:
            pieces.append((self.mask_address, mask_records(key_mask, tokens, n)))
        return pieces

    def unpack_output(self, data) -> np.ndarray:
        """int16 [S, hidden] from the `output16.nbytes(N)` bytes at `output16.address`."""
        return self.output16.unpack(data, self.config.array_n)


def check_ranges(ranges, tokens) -> np.ndarray:
    """The ranges as int64 [S, 2].

    Raises
    ------
    ValueError
        If they have another shape, or reach beyond the tokens.
    """
    ranges = np.asarray(ranges, dtype=np.int64)
    if ranges.shape != (tokens, 2):
        raise ValueError(f"ranges must have the shape [{tokens}, 2], not {list(ranges.shape)}")
    if ranges.min() < 0 or ranges.max() > tokens:
        raise ValueError(f"ranges must be from 0 to {tokens}, not {ranges.min()} to {ranges.max()}")
    return ranges
