"""Counts every cycle of a program in exactly one class for each engine."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.counters.class_counter import ClassCounter
from bertha.rtl.counters.classes import ARRAY, COUNT_BITS, CycleClass
from bertha.rtl.counters.posters import Posters
from bertha.rtl.engine.posts import PostPair
from bertha.rtl.engine.state import EngineState
from bertha.rtl.isa import Engine
from bertha.rtl.selection import one_hot_select

__all__ = ["CycleCounters"]

_CLASS_BITS = 4


class CycleCounters(wiring.Component):
    """Classes of every engine's cycles, their counts, and what the array's waits come from.

    An engine's class is, the first that applies: what it says of its front (`EngineState`); waiting for a
    semaphore, by who posts to it; FILLING if it isn't idle; COMMAND while commands are to be dispatched; IDLE.
    The class of a cycle is registered, then counted in the cycle after, while `counting`. So an engine's counts
    add up to the program's cycles, and tell of the states a cycle before.

    When the array waits for a semaphore, the root cause is the class that the poster is in, in that cycle.

    Ports
    -----
    start : In(1)
        Sets all to zero.
    counting : In(1)
        From the cycle after `start` on.
    cycles : In(64)
        Cycles of `counting` before this one.
    snapshot : In(1)
        Keeps all counts as they are after this cycle, as the end of `counting` does by itself.
    finished : In(1)
        All commands have been dispatched.
    dispatched, engine, posts : In
        As of `Posters`.
    state : In(EngineState) x engines
    waiting, idle : In(1) x engines
        As in `ControlSide`, a cycle old like `state`.
    semaphore : In(5) x engines
        That the engine waits for, in this cycle.
    select : In(8)
        The count that is read: class, engine, and whether it is a root cause (`classes.count_select`).
    count : Out(32)
        The snapshot's, two cycles after `select`.
    snapshot_cycles : Out(64)
        The sum of each engine's counts in the snapshot, modulo 2**32.
    classes : Out(CycleClass) x engines
        Two cycles old: what the counters count.

    Parameters
    ----------
    config : Config
    kinds : sequence of Engine
        Who has the port of the same number.
    """

    def __init__(self, config, kinds):
        self._config = config
        self._kinds = tuple(kinds)
        engines = len(self._kinds)
        super().__init__(
            {
                "start": In(1),
                "counting": In(1),
                "cycles": In(64),
                "snapshot": In(1),
                "finished": In(1),
                "dispatched": In(1),
                "engine": In(Engine),
                "posts": In(PostPair),
                "state": In(EngineState).array(engines),
                "waiting": In(1).array(engines),
                "idle": In(1).array(engines),
                "semaphore": In(5).array(engines),
                "select": In(8),
                "count": Out(COUNT_BITS),
                "snapshot_cycles": Out(64),
                "classes": Out(CycleClass).array(engines),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        engines = len(self._kinds)
        m.submodules.posters = posters = Posters(self._config.semaphores, engines)
        m.d.comb += [
            posters.clear.eq(self.start),
            posters.dispatched.eq(self.dispatched),
            posters.engine.eq(self.engine),
            posters.posts.eq(self.posts),
        ]

        # Classes, of the cycle that the engines tell of.
        more = Signal()
        m.d.sync += more.eq(~self.finished | self.start)
        for number in range(engines):
            semaphore = Signal(5, name=f"semaphore_{number}", reset_less=True)
            m.d.sync += semaphore.eq(self.semaphore[number])
            m.d.comb += posters.semaphore[number].eq(semaphore)
            state = Value.cast(self.state[number])
            now = Signal(_CLASS_BITS, name=f"class_{number}")
            with m.If(state != EngineState.NOTHING.value):
                m.d.comb += now.eq(state)
            with m.Elif(self.waiting[number]):
                m.d.comb += now.eq(Cat(posters.poster[number], Const(1, 1)))
            with m.Elif(~self.idle[number]):
                m.d.comb += now.eq(CycleClass.FILLING.value)
            with m.Else():
                m.d.comb += now.eq(Mux(more, CycleClass.COMMAND.value, CycleClass.IDLE.value))
            m.d.sync += Value.cast(self.classes[number]).eq(now)

        # The end of counting is a snapshot too: the last cycle is counted when it is noticed.
        counting, start, snapshot, ends = Signal(), Signal(), Signal(), Signal()
        m.d.comb += ends.eq(counting & ~self.counting)
        m.d.sync += [counting.eq(self.counting), start.eq(self.start), snapshot.eq(self.snapshot)]
        with m.If(snapshot | ends):
            m.d.sync += self.snapshot_cycles.eq(self.cycles)
        with m.If(start):
            m.d.sync += self.snapshot_cycles.eq(0)

        selected, values = [], []
        select_class, select_engine, select_root = self.select[:4], self.select[4:7], self.select[7]
        for number, kind in enumerate(self._kinds):
            m.submodules[f"{kind.name.lower()}_classes"] = counter = ClassCounter(1 << _CLASS_BITS)
            m.d.comb += [
                counter.clear.eq(start),
                counter.snapshot.eq(snapshot | ends),
                counter.enable.eq(counting),
                counter.number.eq(self.classes[number]),
                counter.select.eq(select_class),
            ]
            selected.append(~select_root & (select_engine == kind))
            values.append(counter.count)

        # Root causes take a cycle more: who is waited for is known with the classes only.
        m.submodules.roots = roots = ClassCounter(1 << (_CLASS_BITS + 2))
        m.d.sync += [roots.clear.eq(start), roots.snapshot.eq(snapshot | ends)]
        self._find_root(m, roots, counting)
        m.d.comb += roots.select.eq(Cat(select_class, (select_engine - 1)[:2]))
        selected.append(select_root & Cat(select_engine == kind for kind in self._kinds).any())
        values.append(roots.count)
        m.d.sync += self.count.eq(one_hot_select(selected, values))
        return m

    def _find_root(self, m, roots, counting):
        """Counts the class of the engine that the array waits for."""
        array = Value.cast(self.classes[self._kinds.index(ARRAY)])
        poster = array[:3]
        by_poster = [Const(0, _CLASS_BITS)] * 8
        for number, kind in enumerate(self._kinds):
            by_poster[kind] = Value.cast(self.classes[number])
        m.d.sync += [
            roots.enable.eq(counting & array[3] & (poster != Engine.SEQUENCER)),
            roots.number.eq(Cat(Array(by_poster)[poster], (poster - 1)[:2])),
        ]
