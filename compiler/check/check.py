"""Refuses a bad program before it runs.

Works on any command list with its DRAM image, compiled or written by hand. The rules: fields in their range
(`bertha.compiler.check.fields`), addresses inside the scratchpad and the window, nothing read that was never written,
nothing stored but into results and declared scratch, every wait satisfiable in program order, counters that cannot
pass 255, every pair of conflicting accesses ordered (`bertha.compiler.check.order`), and accumulators that cannot
overflow with the actual weights.
"""

import numpy as np

from bertha.compiler.check.contents import Contents
from bertha.compiler.check.errors import ProgramError, place
from bertha.compiler.check.fields import check_fields
from bertha.compiler.check.order import Order
from bertha.compiler.hazards.accesses import Space, accesses, space_sizes
from bertha.rtl.isa import Opcode, Statistics

__all__ = ["ProgramError", "check"]

ACCUMULATOR_LIMIT = 1 << 31


def check(program) -> None:
    """Check a program.

    Raises
    ------
    ProgramError
        At the first rule that is broken.
    """
    _Checker(program).run()


class _Checker:
    def __init__(self, program):
        self._program = program
        config = self._config = program.config
        base, _ = program.window
        if base % config.line_bytes:
            raise ProgramError(f"the DRAM window must start at a multiple of a line, not at {base:#x}")
        self._contents = Contents(program)
        self._sizes = space_sizes(config, program.window)
        self._written = {space: np.zeros(size, dtype=bool) for space, size in self._sizes.items()}
        self._written[Space.DRAM][:] = self._contents.filled_lines()
        self._may_store = self._storable_lines()
        self._order = Order(program.commands, config, self._sizes)

    def run(self):
        for number, command in enumerate(self._program.commands):
            check_fields(number, command, self._config, self._program.window)
            if command.opcode == Opcode.BARRIER:
                self._order.barrier()
                continue
            for tile in range(command.tiles):
                found = accesses(
                    command,
                    tile,
                    self._config,
                    dram_base=self._program.window[0],
                    residue_words=self._residue_words(command, tile),
                )
                for access in found:
                    self._check_range(number, command, access)
                    self._check_written(number, command, access)
                    self._check_stored(number, command, access)
                self._order.tile(number, command, tile, found)
                self._check_accumulator(number, command, tile)
                for access in found:
                    if access.write:
                        self._written[access.space][access.first : access.end] = True
                        self._contents.forget(access)
            if command.opcode == Opcode.LOAD:
                self._contents.load(command)
        self._order.finish()

    def _residue_words(self, command, tile):
        """Flagged columns; as many as there can be where the records aren't part of the image."""
        get = command.get
        if not get("residue") or get("out_wide") or (command.opcode != Opcode.GEMM and get("wide")):
            return 0
        if command.opcode == Opcode.GEMM:
            first = get("param_addr") + tile * get("param_stride")
            flags = self._contents.column_flags(first, get("columns"))
            return get("columns") if flags is None else int(flags.sum())
        flags = self._contents.norm_flags(get("param_addr"), get("words"))
        return get("words") if flags is None else int(flags.sum())

    def _check_range(self, number, command, access):
        size = self._sizes[access.space]
        if access.first < 0 or access.end > size:
            what = {
                Space.SCRATCHPAD: f"the scratchpad's {size} lines",
                Space.DRAM: f"the window's {size} lines",
            }.get(access.space, f"the {size} {access.space}")
            raise ProgramError(
                f"{place(number, command)} must stay inside {what}, not touch {access.first} to "
                f"{access.end - 1}"
            )

    def _check_written(self, number, command, access):
        if access.write:
            continues = (
                access.space == Space.STATISTICS
                and command.opcode == Opcode.GEMM
                and command.get("statistics") != Statistics.NONE
                and not command.get("statistics_init")
            )
            if not continues:
                return
        written = self._written[access.space][access.first : access.end]
        if not written.all():
            missing = np.flatnonzero(~written)
            raise ProgramError(
                f"{place(number, command)} must read only what was written before, not {access.space} "
                f"{access.first + missing[0]}"
            )

    def _storable_lines(self):
        """For each line of the window, whether all of it is results or declared scratch."""
        line, (base, limit) = self._config.line_bytes, self._program.window
        lines = np.zeros(self._sizes[Space.DRAM], dtype=bool)
        for address, nbytes in self._program.stores:
            if address < base or address + nbytes > limit:
                raise ProgramError(
                    f"results and scratch must be in the window {base:#x} to {limit:#x}, not {address:#x} to "
                    f"{address + nbytes:#x}"
                )
            lines[-(-(address - base) // line) : (address - base + nbytes) // line] = True
        return lines

    def _check_stored(self, number, command, access):
        if access.space != Space.DRAM or not access.write:
            return
        storable = self._may_store[access.first : access.end]
        if not storable.all():
            wrong = np.flatnonzero(~storable)
            address = self._program.window[0] + (access.first + wrong[0]) * self._config.line_bytes
            raise ProgramError(
                f"{place(number, command)} must store only into results and declared scratch, not to "
                f"{address:#x}"
            )

    def _check_accumulator(self, number, command, tile):
        if command.opcode != Opcode.GEMM:
            return
        get = command.get
        if tile and not (get("b_stride") and get("a_stride")) and not get("param_stride"):
            return  # the weights are the first tile's
        bound = self._contents.accumulator_bound(command, tile)
        if bound >= ACCUMULATOR_LIMIT:
            raise ProgramError(
                f"{place(number, command)} must keep accumulator and bias below 2**31, they can reach {bound}"
            )
