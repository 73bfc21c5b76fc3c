"""Whether the semaphores put every pair of conflicting accesses in order (happens-before), and can be kept.

What an engine knows of the others is a clock (`bertha.compiler.hazards.history`). A tile's post carries its engine's clock, a
wait adds those of the units it takes. Two commands of one engine are ordered by nothing but that: a tile
starts while the one before may still be writing.
"""

from bisect import bisect_right

import numpy as np

from bertha.compiler.check.errors import ProgramError, place
from bertha.compiler.check.fields import unpack_semaphore
from bertha.compiler.hazards.accesses import Space
from bertha.compiler.hazards.history import COMPONENTS, ENGINES, OPERANDS, History, component_of
from bertha.rtl.isa import Engine, Opcode

__all__ = ["Order"]

COUNTER_LIMIT = 255


class _Semaphore:
    """Units posted so far with the poster's clock at each, and units taken with the waiter's tile."""

    def __init__(self):
        self.poster = self.waiter = None
        self.clocks = []
        self.taken = 0
        self.take_tiles, self.take_totals = [], []


class Order:
    """Checks the tiles of a program, given in program order.

    Parameters
    ----------
    commands : list of Command
    config : Config
    sizes : dict
        Places of each space.
    """

    def __init__(self, commands, config, sizes):
        self._commands = commands
        self._semaphores = [_Semaphore() for _ in range(config.semaphores)]
        self._history = History(sizes)
        self._clock = {engine: np.zeros(COMPONENTS, np.int32) for engine in ENGINES}
        self._numbers = {engine: [] for engine in ENGINES}  # tile -> command number

    def barrier(self) -> None:
        """All engines are idle: everything is done, and everyone knows."""
        everything = [len(self._numbers[engine]) for engine in (*ENGINES, Engine.GEMM)]
        for clock in self._clock.values():
            clock[:] = everything

    def tile(self, number, command, tile, found) -> None:
        """Take the waits of a tile, check its accesses, and post.

        Raises
        ------
        ProgramError
            If a wait can't be satisfied, a semaphore is misused, or an access isn't ordered.
        """
        engine = command.engine
        clock = self._clock[engine]
        for name in ("wait0", "wait1"):
            each = name == "wait1" and command.get("wait1_each")
            if command.get(name) and (tile == 0 or each):
                self._take(number, command, unpack_semaphore(command.get(name)), clock)
        for access in found:
            needed = self._history.required(access, engine)
            late = needed > clock
            if late.any():
                self._report(number, command, access, np.flatnonzero(late), needed)
        own = len(self._numbers[engine])
        self._numbers[engine].append(number)
        for access in found:
            self._history.record(access, engine, own)
        last = tile == command.tiles - 1
        for name in ("post0", "post1"):
            if command.get(name) and (last or command.get(f"{name}_each")):
                self._post(number, command, name, clock, own)

    def finish(self) -> None:
        """The program is over.

        Raises
        ------
        ProgramError
            If units are left, which the next program would find.
        """
        for number, semaphore in enumerate(self._semaphores):
            left = len(semaphore.clocks) - semaphore.taken
            if left:
                raise ProgramError(f"semaphore {number} must be empty at the end, {left} units are left")

    def _take(self, number, command, unit, clock):
        which, amount = unit
        semaphore = self._semaphores[which]
        if semaphore.waiter not in (None, command.engine):
            raise ProgramError(
                f"{place(number, command)} must not wait for semaphore {which}, which "
                f"{semaphore.waiter.name} waits for"
            )
        semaphore.waiter = command.engine
        available = len(semaphore.clocks) - semaphore.taken
        if amount > available:
            raise ProgramError(
                f"{place(number, command)} must find {amount} units of semaphore {which} in program order, "
                f"there are {available}"
            )
        semaphore.taken += amount
        np.maximum(clock, semaphore.clocks[semaphore.taken - 1], out=clock)
        semaphore.take_tiles.append(len(self._numbers[command.engine]))
        semaphore.take_totals.append(semaphore.taken)

    def _post(self, number, command, name, clock, own):
        which, amount = unpack_semaphore(command.get(name))
        semaphore = self._semaphores[which]
        is_gemm = command.opcode == Opcode.GEMM
        poster = (command.engine, "operands" if is_gemm and name == "post0" else "results")
        if semaphore.poster not in (None, poster):
            raise ProgramError(
                f"{place(number, command)} must not post semaphore {which} ({poster[1]}), which "
                f"{semaphore.poster[0].name} posts ({semaphore.poster[1]})"
            )
        semaphore.poster = poster
        known = clock.copy()
        if is_gemm:
            known[OPERANDS] = max(known[OPERANDS], own + 1)
        if poster[1] == "results":
            known[component_of(command.engine)] = own + 1
        semaphore.clocks.extend([known] * amount)
        surely = 0
        if semaphore.waiter is not None:
            # Takes that have happened for certain: those of the waiter's tiles known to be read or done.
            done = int(known[component_of(semaphore.waiter)])
            if semaphore.waiter == Engine.GEMM:
                done = max(done, int(known[OPERANDS]))
            position = bisect_right(semaphore.take_tiles, done - 1)
            surely = semaphore.take_totals[position - 1] if position else 0
        if len(semaphore.clocks) - surely > COUNTER_LIMIT:
            raise ProgramError(
                f"{place(number, command)} must keep semaphore {which} at {COUNTER_LIMIT} at most, it can "
                f"reach {len(semaphore.clocks) - surely}"
            )

    def _report(self, number, command, access, late, needed):
        sources = (*ENGINES, Engine.GEMM)
        other, component = max((self._numbers[sources[c]][needed[c] - 1], c) for c in late)
        places = access.end - access.first
        low = access.first + next(
            offset
            for offset in range(places)
            if self._history.required(
                access._replace(first=access.first + offset, end=access.first + offset + 1), command.engine
            )[component]
            == needed[component]
        )
        kind = "writes" if access.write else "reads"
        unit = {Space.SCRATCHPAD: "scratchpad lines", Space.DRAM: "DRAM lines"}.get(
            access.space, f"{access.space} slots"
        )
        raise ProgramError(
            f"{place(number, command)} {kind} {unit} {access.first} to {access.end - 1} and must be "
            f"ordered after {place(other, self._commands[other])}, which uses them from {low} on"
        )
