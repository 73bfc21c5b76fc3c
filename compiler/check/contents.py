"""What a program's image says about the contents of the scratchpad: weights, records, flags."""

import numpy as np

from bertha.compiler.hazards.accesses import RECORD_LINES, Space
from bertha.rtl.isa import Wide

__all__ = ["Contents"]

WORST_SIGNED, WORST_UNSIGNED = 128, 255
COMBINED_SHIFT = 4

_COLUMN = np.dtype([("bias", "<i4"), ("mult", "<u2"), ("bits", "<u2")])


class Contents:
    """Follows loads, so that lines whose bytes are known from the DRAM image can be looked at.

    Bytes that the host writes for each sequence, and what the program stores, are not known.

    Parameters
    ----------
    program : Program
    """

    def __init__(self, program):
        config = program.config
        self._n, self._line_bytes = config.array_n, config.line_bytes
        base, limit = program.window
        self._base = base
        size = -(-(limit - base) // self._line_bytes) * self._line_bytes
        self._image = np.zeros(size, dtype=np.uint8)
        self._filled = np.zeros(size, dtype=bool)
        self._known = np.zeros(size, dtype=bool)
        for address, content in program.pieces:
            place = slice(address - base, address - base + len(content))
            self._image[place] = np.frombuffer(content, dtype=np.uint8)
            self._filled[place] = self._known[place] = True
        for address, nbytes in program.inputs:
            place = slice(address - base, address - base + nbytes)
            self._filled[place], self._known[place] = True, False
        self._source = np.full(config.lines, -1, dtype=np.int64)  # byte in the image, -1: not known
        self._bounds = {}

    def filled_lines(self) -> np.ndarray:
        """For each line of the window, whether it holds something when the program starts."""
        return self._filled.reshape(-1, self._line_bytes).all(axis=1)

    def load(self, command) -> None:
        """Lines that a LOAD brought are known if its source is."""
        get = command.get
        for row in range(get("rows")):
            start = get("dram_addr") + row * get("dram_stride") - self._base
            line = get("scratchpad_addr") + row * get("scratchpad_stride")
            sources = start + np.arange(get("lines")) * self._line_bytes
            known = self._known[start : start + get("lines") * self._line_bytes]
            known = known.reshape(-1, self._line_bytes).all(axis=1)
            self._source[line : line + get("lines")] = np.where(known, sources, -1)

    def forget(self, access) -> None:
        """A command writes something that isn't known in advance."""
        if access.space == Space.SCRATCHPAD:
            self._source[access.first : access.end] = -1
        elif access.space == Space.DRAM:
            self._known[access.first * self._line_bytes : access.end * self._line_bytes] = False
            self._bounds.clear()

    def column_flags(self, line, columns) -> np.ndarray | None:
        """Residue flags of the first `columns` column records from a line on, None if not known."""
        records = self._column_records(line)
        return None if records is None else (records["bits"][:columns] >> 11 & 1).astype(bool)

    def norm_flags(self, line, words) -> np.ndarray | None:
        """Residue flags of `words` norm records from a line on, None if not known."""
        content = self._bytes(line, -(-8 * words // self._line_bytes))
        return None if content is None else content[: 8 * words].reshape(-1, 8)[:, 6] & 1 == 1

    def accumulator_bound(self, command, tile) -> int:
        """The largest |accumulator + bias| of a GEMM tile, whatever its unknown operand holds.

        With a wide operand the accumulator is what its two planes' sums of products are combined to.
        """
        get = command.get
        products = self._products_bound(command, tile)
        if get("wide"):
            low = self._products_bound(command, tile, plane=get("low_offset"))
            products = (products << 8 - COMBINED_SHIFT) + (low + (1 << COMBINED_SHIFT - 1) >> COMBINED_SHIFT)
        if get("params"):
            records = self._column_records(get("param_addr") + tile * get("param_stride"))
            if records is not None:  # the host's, those of the key mask, have no bias
                products = products + np.abs(records["bias"].astype(np.int64))
        return int(products[: get("columns")].max())

    def _products_bound(self, command, tile, *, plane=0):
        """The largest |sum of products| of each column, with the plane `plane` lines on of a wide operand."""
        get = command.get
        other = WORST_UNSIGNED if get("a_unsigned") else WORST_SIGNED
        products = np.full(self._n, get("k") * other * WORST_SIGNED, dtype=np.int64)
        sums = self._sums("b", command, tile, signed=True, plane=plane if get("wide") == Wide.B else 0)
        if sums is not None:
            products = np.minimum(products, sums * other)
        a_signed = not get("a_unsigned")
        sums = self._sums("a", command, tile, signed=a_signed, plane=plane if get("wide") == Wide.A else 0)
        if sums is not None:
            products = np.minimum(products, sums.max() * WORST_SIGNED)
        return products

    def _sums(self, operand, command, tile, *, signed, plane):
        """Sum of magnitudes of each lane of an operand's plane, None if it isn't known."""
        line = command.get(f"{operand}_addr") + tile * command.get(f"{operand}_stride") + plane
        source = self._source[line]
        key = (int(source), command.get("k"), signed)
        if source >= 0 and key in self._bounds:
            return self._bounds[key]
        content = self._bytes(line, command.get("k") // 2)
        if content is None:
            return None
        words = content.reshape(-1, self._n).view(np.int8 if signed else np.uint8)
        self._bounds[key] = np.abs(words.astype(np.int64)).sum(axis=0)
        return self._bounds[key]

    def _column_records(self, line):
        content = self._bytes(line, RECORD_LINES)
        return None if content is None else content.view(_COLUMN)

    def _bytes(self, line, lines):
        sources = self._source[line : line + lines]
        if len(sources) < lines or sources[0] < 0:
            return None
        if np.any(sources != sources[0] + np.arange(lines) * self._line_bytes):
            return None
        return self._image[sources[0] : sources[0] + lines * self._line_bytes]
