"""Passes of their own over panels that a GEMM wrote, where they aren't done in its drain (`Ablations`).

The epilogue has the arithmetic, so these are GEMMs too. Products of zeros plus a panel as residual give the panel, and
gather its statistics. For all else the panel comes through the array: as two planes of signed bytes times the
identity, 16 on its diagonal, which is exact: 16 * (16 * high) + rhu(16 * low, 4) = 256 * high + low. Planes hold 32,639
at most, so only results that nearly saturate could differ from those of the drain. Such a pass takes two cycles a
word, that of the statistics one. Tiles have an even number of columns.
"""

from bertha.rtl.isa import Opcode, Statistics, Wide

__all__ = ["Passes", "add_moments"]


def statistics_fields(zeros, line, kind, *, first, slot) -> dict:
    """Fields of a GEMM that gathers the statistics of tiles of int16 words from `line` on, and writes them back as they were.

    Parameters
    ----------
    zeros : int
        A line of zeros.
    kind : Statistics
    first : bool
        Start anew.
    """
    return {
        "a_addr": zeros,
        "b_addr": zeros,
        "k": 2,
        "out16": 1,
        "residual": 1,
        "residual_addr": line,
        "c_addr": line,
        "statistics": kind,
        "statistics_init": first,
        "slot": slot,
    }


def add_moments(emitter, operation, zeros, line, words, *, slot, last_first=False) -> None:
    """Gather the moments of a row panel of int16 words from `line` on.

    Parameters
    ----------
    zeros : int
        A line of zeros.
    last_first : bool
        Start with the last tile. Where GEMM after GEMM wrote the tiles, what was written last is then waited for once, and
        not each of the others.
    """
    n = emitter.n
    tiles, left = divmod(words, n)
    parts = [(0, 1, min(n, words)), (1, tiles - 1, n), (tiles, 1, left)]
    if last_first:
        parts = [(tiles, 1, left), (0, tiles, n)] if left else [(tiles - 1, 1, n), (0, tiles - 1, n)]
    start = parts[0][0]
    for first, count, columns in parts:
        if count < 1 or columns < 1 or first * n >= words:
            continue
        emitter.add(
            Opcode.GEMM,
            operation,
            count=count,
            columns=columns,
            residual_stride=n,
            c_stride=n,
            **statistics_fields(zeros, line + first * n, Statistics.MOMENTS, first=first == start, slot=slot),
        )


class Passes:
    """The passes of a program.

    Parameters
    ----------
    emitter : Emitter
    """

    def __init__(self, emitter):
        self.e = emitter
        self._used = 0  # bytes of the scratch that passes share

    def load_constants(self) -> None:
        """Load the zeros and the identity, once a program."""
        if self.e.ablations.needs_constants:
            self.e.load_region("zeros.constants", self.e.model.constants, "constants")

    def statistics(self, line, kind, *, first, slot) -> dict:
        """See `statistics_fields`."""
        return statistics_fields(self._zeros, line, kind, first=first, slot=slot)

    def add_moments(self, operation, line, words, slot) -> None:
        """See `add_moments`."""
        add_moments(self.e, operation, self._zeros, line, words, slot=slot, last_first=True)

    @property
    def _zeros(self):
        return self.e.plan.line("constants")

    @property
    def identity(self) -> int:
        """First line of the identity's panel."""
        return self.e.plan.line("constants") + 1

    @staticmethod
    def planes(place, columns) -> dict:
        """Fields of a GEMM that writes its tiles' int16 results as planes, a line a column, from line `place` on."""
        return {
            "out_wide": 1,
            "c_addr": place,
            "c_stride": columns,
            "residue_addr": place + columns // 2,
            "residue_stride": columns,
        }

    def add_element_wise(self, operation, place, columns, count, **fields) -> None:
        """The epilogue, as `fields` say, over `count` tiles of planes that are at `place` (see `planes`)."""
        self.e.add(
            Opcode.GEMM,
            operation,
            wide=Wide.A,
            low_offset=columns // 2,
            a_addr=place,
            a_stride=columns,
            b_addr=self.identity,
            k=columns,
            count=count,
            columns=columns,
            mult=1,
            **fields,
        )

    def round_trip(self, operation, line, lines) -> tuple:
        """Two functions that emit the STORE of lines to DRAM, and the LOAD that brings them back."""
        e = self.e
        size, region = lines * e.config.line_bytes, e.scratch_bytes["passes"]
        if self._used + size > region:
            self._used = 0
        address = e.scratch["passes"] + self._used
        self._used += size

        def store():
            e.store(operation, address, line, lines)

        def load():
            e.load(operation, address, line, lines)

        return store, load

    def add_round_trip(self, operation, line, lines) -> None:
        """Lines to DRAM and back, at once."""
        for emit in self.round_trip(operation, line, lines):
            emit()
