"""Reading the cycle counters through registers."""

import random

import pytest

from bertha.rtl.counters.classes import CycleClass, count_select
from bertha.rtl.isa import Engine
from bertha.rtl.registers import offset_of
from bertha.runtime.driver import Driver
from bertha.runtime.engine_cycles import ENGINES
from bertha.runtime.transport import complete


class _Link:
    """Registers of an accelerator with counts of its own choice."""

    def __init__(self, counts, *, present=1):
        self.counts, self.present = counts, present
        self.selected = 0
        self.written = []

    async def read(self, offset):
        names = ("cycle_counters", "count", "snapshot_cycles", "snapshot_cycles_high")
        name = next(name for name in names if offset_of(name) == offset)
        return {
            "cycle_counters": self.present,
            "count": self.counts.get(self.selected, 0),
            "snapshot_cycles": 5,
            "snapshot_cycles_high": 1,
        }[name]

    async def write(self, offset, value):
        self.written.append((offset, value))
        if offset == offset_of("count_select"):
            self.selected = value


def test_every_count_has_its_place():
    rng = random.Random(1)
    print("seed 1")
    counts = {
        count_select(engine, cycle_class, root=root): rng.randrange(1, 1 << 32)
        for engine in ENGINES
        for cycle_class in CycleClass
        for root in (False, True)
    }
    assert len(counts) == len(ENGINES) * len(CycleClass) * 2  # all of them are different
    found = complete(Driver(_Link(counts)).engine_cycles())
    assert found.cycles == (1 << 32) + 5
    for root, table in ((False, found.classes), (True, found.array_waits)):
        assert list(table) == ["load", "store", "gemm", "vector"]
        for engine in ENGINES:
            assert table[engine.name.lower()] == {
                c.name.lower(): counts[count_select(engine, c, root=root)] for c in CycleClass
            }


def test_waits_that_there_were_none_of_are_not_read():
    link = _Link({count_select(Engine.VECTOR, CycleClass.WORKING, root=True): 9})
    found = complete(Driver(link).engine_cycles())
    assert set(found.array_waits["vector"].values()) == {0}
    assert len(link.written) == len(ENGINES) * len(CycleClass)


@pytest.mark.parametrize(
    "engine, cycle_class, root, value",
    [
        (Engine.LOAD, CycleClass.IDLE, False, 0x10),
        (Engine.GEMM, CycleClass.SEMAPHORE_VECTOR, False, 0x3C),
        (Engine.VECTOR, CycleClass.WORKING, True, 0xC3),
    ],
)
def test_encoding(engine, cycle_class, root, value):
    """As docs/programming.md has it."""
    assert count_select(engine, cycle_class, root=root) == value


def test_an_accelerator_without_counters():
    assert complete(Driver(_Link({}, present=0)).engine_cycles()) is None


def test_snapshot():
    link = _Link({})
    complete(Driver(link).snapshot())
    assert link.written == [(offset_of("control"), 16)]
