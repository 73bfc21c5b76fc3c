"""Passes of their own over panels that a GEMM wrote, where they aren't done in its drain (`Ablations`).

The epilogue has the arithmetic, so these are GEMMs too. Products of zeros plus a panel as residual give the panel, and
gather its statistics. For all else the panel comes through the array: as two planes of signed bytes times the
identity, 16 on its diagonal, which is exact: 16 * (16 * high) + rhu(16 * low, 4) = 256 * high + low. Planes hold 32,639
at most, so only results that nearly saturate could differ from those of the drain. Such a pass takes two cycles a
word, that of the statistics one. Tiles have an even number of columns.
"""

from bertha.rtl.isa import Opcode, Wide

__all__ = ["Passes", "add_statistics"]


def add_statistics(emitter, operation, zeros, line, words, *, kind, slot, of_tile=None) -> None:
    """Gather the statistics of a row panel of int16 words from `line` on, which is written back as it was.

    Parameters
    ----------
    zeros : int
        A line of zeros.
    kind : Statistics
    of_tile : function of int, optional
        More fields of the command whose first tile has this number.
    """
    n = emitter.n
    tiles, left = divmod(words, n)
    for first, count, columns in ((0, 1, min(n, words)), (1, tiles - 1, n), (tiles, 1, left)):
        if count < 1 or columns < 1 or first * n >= words:
            continue
        place = line + first * n
        emitter.add(
            Opcode.GEMM,
            operation,
            a_addr=zeros,
            b_addr=zeros,
            k=2,
            count=count,
            columns=columns,
            out16=1,
            residual=1,
            residual_addr=place,
            residual_stride=n,
            c_addr=place,
            c_stride=n,
            statistics=kind,
            statistics_init=first == 0,
            slot=slot,
            **(of_tile(first) if of_tile else {}),
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
            self.e.load_region("pass.constants", self.e.model.constants, "constants")

    @property
    def zeros(self) -> int:
        """A line of zeros."""
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
