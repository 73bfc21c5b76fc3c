"""A compiled program: commands, the DRAM image they work on, and where inputs and outputs lie in it."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from bertha.compiler.layout.panels import pack, panel_count, unpack
from bertha.rtl.config import Config
from bertha.rtl.isa import COMMAND_BYTES, COMMANDS, Engine, Opcode, encode

__all__ = ["Command", "Operand", "Program", "Work"]


class Work(NamedTuple):
    """The model's own multiply-accumulates in a tile: those of the tokens of `rows` (with those of `keys`).

    Attributes
    ----------
    each : int
        Multiply-accumulates of one token, or of a pair of a token and a key; duplicated columns aren't counted.
    rows : range
        Tokens.
    keys : range or None
        Tokens that each of the rows meets, in attention.
    """

    each: int
    rows: range
    keys: range | None = None

    def macs(self, mask=None) -> int:
        """Multiply-accumulates of all tokens, or of those alone that are true in `mask`, a bool [S]."""

        def count(tokens):
            return len(tokens) if mask is None else int(np.count_nonzero(mask[tokens.start : tokens.stop]))

        return self.each * count(self.rows) * (1 if self.keys is None else count(self.keys))


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
    """

    opcode: Opcode
    fields: dict
    name: str
    work: tuple = ()
    residue_words: tuple = ()
    dram_bytes: int = 0

    @property
    def engine(self) -> Engine:
        return self.opcode.engine

    @property
    def tiles(self) -> int:
        """Tiles of a GEMM; 1 for every other command."""
        return self.fields["count"] if self.opcode == Opcode.GEMM else 1

    def macs(self, mask=None) -> int:
        """The model's own multiply-accumulates in it, of all S tokens or of those that are true in `mask`."""
        return sum(work.macs(mask) for work in self.work)

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
    """What a host needs to run a layer.

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
    x16, x8 : Operand
        Inputs: the int16 layer input [S, hidden]; its int8 operand with the residues of the flagged features
        behind the features (`bertha.golden.integer_model.quantise_operand`).
    mask_address : int
        Column records of the key mask.
    output16 : Operand
        int16 layer output [S, hidden].
    name : str
    plan : Plan

    From `x16` to `output16` and `plan` are None in a program that wasn't compiled from a layer: all its data is
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
    mask_address: int | None = None
    output16: Operand | None = None
    name: str = "layer"
    plan: object = field(default=None, repr=False)

    @property
    def code(self) -> bytes:
        """The commands as bytes."""
        return b"".join(command.encode() for command in self.commands)

    @property
    def code_bytes(self) -> int:
        return COMMAND_BYTES * len(self.commands)

    @property
    def macs(self) -> int:
        """The model's own multiply-accumulates, those of padding tokens among them."""
        return sum(command.macs() for command in self.commands)

    @property
    def inputs(self) -> list[tuple[int, int]]:
        """Regions of DRAM, as (first byte, bytes), that the host fills for each sequence."""
        if self.x16 is None:
            return []
        n = self.config.array_n
        records = panel_count(self.x16.rows, n) * n * 8
        return [
            (self.x16.address, self.x16.nbytes(n)),
            (self.x8.address, self.x8.nbytes(n)),
            (self.mask_address, records),
        ]

    @property
    def stores(self) -> list[tuple[int, int]]:
        """Regions of DRAM, as (first byte, bytes), that the program may change: results and scratch."""
        if self.output16 is None:
            return list(self.scratch)
        return [(self.output16.address, self.output16.nbytes(self.config.array_n)), *self.scratch]

    def input_pieces(self, *, x16, x8, mask=None) -> list[tuple[int, bytes]]:
        """Pieces of DRAM for one sequence.

        Parameters
        ----------
        x16 : int16 [S, hidden]
        x8 : int8 [S, hidden + residues]
        mask : bool [S], optional
            True for a real token.
        """
        from bertha.compiler.layout.records import mask_records

        n = self.config.array_n
        return [
            (self.x16.address, self.x16.pack(x16, n)),
            (self.x8.address, self.x8.pack(x8, n)),
            (self.mask_address, mask_records(mask, self.x16.rows, n)),
        ]

    def unpack_output(self, data) -> np.ndarray:
        """int16 [S, hidden] from the `output16.nbytes(N)` bytes at `output16.address`."""
        return self.output16.unpack(data, self.config.array_n)
