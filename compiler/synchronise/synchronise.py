"""Places the semaphores: makes every pair of conflicting accesses of a command list happen in program order.

The emitters write commands in an order that is right when executed one after the other. This pass goes
through them, finds what each tile must wait for that its engine doesn't know yet, and posts and takes a unit of
a semaphore for it. There is one semaphore for each poster, moment (operands read, results done) and waiter, and
both ends use it in program order, so units can't be mistaken for one another.
"""

from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from bertha.compiler.hazards.accesses import accesses, space_sizes
from bertha.compiler.hazards.history import COMPONENTS, ENGINES, OPERANDS, History, component_of
from bertha.compiler.program import GEMM_STRIDES, Command
from bertha.compiler.synchronise.units import WAIT_ONLY, count_units
from bertha.rtl.isa import Engine, Opcode

__all__ = ["synchronise"]

_ENGINE_OF = (*ENGINES, Engine.GEMM)
_CHOICE = [component_of(e) for e in (Engine.VECTOR, Engine.STORE, Engine.LOAD, Engine.GEMM)] + [OPERANDS]
"""Order in which components are waited for where nothing else decides."""


@dataclass(eq=False)
class _Step:
    """A command on its way through the pass."""

    command: Command
    first: int  # number of its first tile
    clocks: list = field(default_factory=list)  # of its engine at the start of each tile
    posts: dict = field(default_factory=dict)  # post field -> (stream, set of tiles)
    once: list = field(default_factory=list)  # events waited for before the first tile
    each: list = field(default_factory=list)  # one event a tile


def synchronise(commands, config, *, dram_base, dram_end) -> list[Command]:
    """A copy of `commands` with waits and posts, WAIT commands and, at worst, barriers.

    Raises
    ------
    ValueError
        If the semaphores of the configuration don't suffice.
    """
    return _Pass(config, dram_base, dram_end).run(commands)


class _Pass:
    def __init__(self, config, dram_base, dram_end):
        self._config = config
        self._dram_base = dram_base
        self._history = History(space_sizes(config, (dram_base, dram_end)))
        self._clock = {engine: np.zeros(COMPONENTS, np.int32) for engine in ENGINES}
        self._tiles = dict.fromkeys(ENGINES, 0)
        self._steps = []
        self._by_tile = {engine: [] for engine in ENGINES}  # tile number -> (step, tile)

    def run(self, commands):
        pending = list(reversed(commands))
        while pending:
            command = pending.pop()
            if command.opcode == Opcode.BARRIER:
                self._barrier()
                continue
            parts = self._step(command)
            if parts is not None:
                pending.extend(reversed(parts))
        return count_units(self._steps, self._config)

    def _barrier(self):
        self._steps.append(_Step(Command(opcode=Opcode.BARRIER, fields={}, name="barrier"), 0))
        everything = np.array([self._tiles[engine] for engine in _ENGINE_OF], np.int32)
        for clock in self._clock.values():
            np.maximum(clock, everything, out=clock)

    def _step(self, command):
        """Add a command; or return the parts that it has to be split into first."""
        engine = command.engine
        tiles = [
            accesses(command, tile, self._config, dram_base=self._dram_base) for tile in range(command.tiles)
        ]
        needed = self._needed(tiles, engine)
        step = _Step(command, self._tiles[engine])
        clock = self._clock[engine].copy()
        events = []
        for need in needed:
            found = self._wait_for(need, clock, engine)
            if found is None:
                self._barrier()
                return [command]
            events.append(found)
            step.clocks.append(clock.copy())
        late = [tile for tile in range(1, len(tiles)) if events[tile]]
        step.once = list(events[0])
        if late and not self._per_tile(step, events):
            return _split(command, [0, *late])
        self._clock[engine] = clock
        for found in events:
            for event in found:
                self._post(event)
        last = {access: tile for tile, group in enumerate(tiles) for access in group}
        self._by_tile[engine].extend((step, tile) for tile in range(len(tiles)))
        for tile, group in enumerate(tiles):
            for access in group:
                # A tile that does the same after it stands for this one.
                if last[access] == tile:
                    self._history.record(access, engine, step.first + tile)
        self._tiles[engine] += len(tiles)
        self._steps.append(step)
        return None

    def _needed(self, tiles, engine):
        """The clock that each tile's accesses need. Tiles have accesses in common."""
        needs = {}
        needed = []
        for group in tiles:
            clock = np.zeros(COMPONENTS, np.int32)
            for access in group:
                need = needs.get(access)
                if need is None:
                    need = needs[access] = self._history.required(access, engine)
                np.maximum(clock, need, out=clock)
            needed.append(clock)
        return needed

    def _per_tile(self, step, events):
        """Whether the waits fit `wait1_each`: every tile waits for the next tile of one other command."""
        if any(len(found) != 1 for found in events[1:]):
            return False
        stream, source, _ = events[1][0]
        same = [event for event in events[0] if event[0] == stream]
        chain = same + [found[0] for found in events[1:]]
        if len(chain) != len(events):
            return False
        is_gemm = source.command.opcode == Opcode.GEMM
        for (s, before, tile_before), (t, after, tile_after) in pairwise(chain):
            if s != t or t != stream:
                return False
            if is_gemm and before is after and tile_after != tile_before + 1:
                return False
            if before is not after and not self._adjacent(before, tile_before, after, tile_after, stream):
                return False
        step.once = [event for event in events[0] if event not in same]
        step.each = chain
        return True

    def _adjacent(self, before, tile_before, after, tile_after, stream):
        """Whether no unit of the stream comes between these two events of different commands."""
        if tile_before != before.command.tiles - 1 or tile_after not in (0, after.command.tiles - 1):
            return False
        if after.command.tiles > 1:
            return False
        engine = before.command.engine
        between = range(before.first + before.command.tiles, after.first)
        return not any(
            posted[0] == stream
            for number in between
            for posted in self._by_tile[engine][number][0].posts.values()
        )

    def _wait_for(self, need, clock, engine):
        """Events that make `clock` reach `need` (and do); None if there aren't any to be had."""
        found = []
        while True:
            missing = [component for component in _CHOICE if clock[component] < need[component]]
            if not missing:
                return found
            events = []
            for component in missing:
                event = self._find(component, need[component] - 1, engine)
                if event is None:
                    event = self._find_instead(component, need[component], engine)
                if event is None:
                    return None
                events.append(event)
            # The event that tells most about the others first: it may make them needless.
            best = max(events, key=lambda event: int((self._known_at(event) >= need)[missing].sum()))
            found.append(best)
            np.maximum(clock, self._known_at(best), out=clock)

    def _find(self, component, number, waiter):
        """The first event of the component's engine, from tile `number` on, that can be waited for."""
        source = _ENGINE_OF[component]
        while number < self._tiles[source]:
            step, tile = self._by_tile[source][number]
            for post in self._post_fields(step, component):
                stream = (source, "operands" if source == Engine.GEMM and post == "post0" else "done", waiter)
                if step.posts.get(post, (stream,))[0] == stream:
                    return stream, step, tile
            number = step.first + step.command.tiles
        return None

    def _find_instead(self, component, count, waiter):
        """An event of another engine by which the component is known to have reached `count`."""
        for other in ENGINES:
            tiles = range(self._tiles[other])
            # What an engine knows only grows.
            number = bisect_left(tiles, count, key=lambda tile: self._clock_of(other, tile)[component])
            if number < len(tiles):
                event = self._find(component_of(other), number, waiter)
                if event:
                    return event
        return None

    def _clock_of(self, engine, number):
        step, tile = self._by_tile[engine][number]
        return step.clocks[tile]

    @staticmethod
    def _post_fields(step, component) -> tuple[str, ...]:
        if step.command.opcode == Opcode.GEMM:
            return ("post0", "post1") if component == OPERANDS else ("post1",)
        return () if step.command.opcode in WAIT_ONLY.values() else ("post1", "post0")

    def _known_at(self, event):
        stream, step, tile = event
        clock = step.clocks[tile].copy()
        source, moment, _ = stream
        number = step.first + tile + 1
        if source == Engine.GEMM:
            clock[OPERANDS] = max(clock[OPERANDS], number)
        if moment == "done":
            clock[component_of(source)] = max(clock[component_of(source)], number)
        return clock

    def _post(self, event):
        stream, step, tile = event
        if step.command.opcode == Opcode.GEMM:
            post = "post0" if stream[1] == "operands" else "post1"
        else:
            post = next(p for p in ("post1", "post0") if step.posts.get(p, (stream,))[0] == stream)
        step.posts.setdefault(post, (stream, set()))[1].add(tile)


def _split(command, starts):
    """The command as several, each of the tiles from one of `starts` to the next."""
    parts = []
    for start, end in zip(starts, [*starts[1:], command.tiles], strict=True):
        fields = dict(command.fields)
        for name, stride in GEMM_STRIDES.items():
            fields[name] = fields.get(name, 0) + start * fields.get(stride, 0)
        fields["first_key"] %= 1 << 16
        fields["count"] = end - start
        parts.append(
            Command(
                opcode=command.opcode,
                fields=fields,
                name=command.name,
                work=command.work[start:end],
                residue_words=command.residue_words[start:end],
            )
        )
    return parts
