"""Where the cycles of a whole model go: by layer, and by kind of operation."""

from dataclasses import dataclass

import numpy as np

from bertha.compiler.operations import EMBEDDING, KINDS, kind_of, layer_of
from bertha.rtl.isa import Engine

__all__ = ["KINDS", "KindCost", "LayerCost", "by_kind", "by_layer", "kind_of", "layer_of"]


@dataclass(frozen=True, kw_only=True)
class KindCost:
    """What one engine did for one kind of operation, all runs together.

    Attributes
    ----------
    name : str
        One of `KINDS`.
    engine : str
    busy_cycles : int
        Cycles in which one of its commands was active.
    macs : int
        The model's own multiply-accumulates, of real tokens only.
    dram_bytes : int
    commands : int
    """

    name: str
    engine: str
    busy_cycles: int
    macs: int
    dram_bytes: int
    commands: int


@dataclass(frozen=True, kw_only=True)
class LayerCost:
    """What one layer took, all runs together.

    Attributes
    ----------
    name : str
        `embedding`, or `layer 0` and so on.
    index : int or None
        The layer's number; None for the embedding LayerNorm.
    start, end : int
        First and last cycle of the first run in which the array or the vector engine worked for it.
    cycles : int
        From its first tile to that of the next one: the layers' cycles add up to the run's. The embedding's begin
        at the doorbell, the last layer's end at the interrupt.
    macs : int
        The model's own multiply-accumulates, of real tokens only.
    utilization : float
        macs / (N² · cycles).
    """

    name: str
    index: int | None
    start: int
    end: int
    cycles: int
    macs: int
    utilization: float


def by_kind(runs, outcomes) -> list[KindCost]:
    """The cost of every kind of operation.

    Parameters
    ----------
    runs : list
        With `program`, and `ranges`, the keys that each row sees.
    outcomes : list of Outcome
        Of each run.
    """
    totals = {}
    for run, outcome in zip(runs, outcomes, strict=True):
        for command, row in _active(run, outcome):
            key = KINDS.index(kind_of(command)), command.engine.name.lower()
            total = totals.setdefault(key, np.zeros(4, dtype=np.int64))
            total += int(row["busy"]), command.macs(run.ranges), command.dram_bytes, 1
    return [
        KindCost(
            name=KINDS[kind],
            engine=engine,
            busy_cycles=int(busy),
            macs=int(macs),
            dram_bytes=int(moved),
            commands=int(count),
        )
        for (kind, engine), (busy, macs, moved, count) in sorted(totals.items())
    ]


def by_layer(runs, outcomes) -> list[LayerCost]:
    """The cost of the embedding LayerNorm and of every layer, the parameters as in `by_kind`."""
    array_n = runs[0].program.config.array_n
    cycles, macs, spans = {}, {}, {}
    for number, (run, outcome) in enumerate(zip(runs, outcomes, strict=True)):
        first_tile = {}
        for command, row in _active(run, outcome):
            if command.engine not in (Engine.GEMM, Engine.VECTOR):
                continue
            layer = layer_of(command.name)
            first, last = int(row["first"]), int(row["last"])
            if number == 0:
                start, end = spans.get(layer, (first, last))
                spans[layer] = min(first, start), max(last, end)
            if command.engine == Engine.GEMM:
                first_tile[layer] = min(first, first_tile.get(layer, first))
                macs[layer] = macs.get(layer, 0) + command.macs(run.ranges)
        layers = sorted(first_tile.keys() - {None})
        starts = [first_tile[layer] for layer in layers]
        ends = [*starts[1:], outcome.cycles]
        if None in first_tile:
            layers, starts, ends = [None, *layers], [0, *starts], [starts[0], *ends]
        else:
            starts[0] = 0
        for layer, start, end in zip(layers, starts, ends, strict=True):
            cycles[layer] = cycles.get(layer, 0) + end - start
    return [
        LayerCost(
            name=EMBEDDING if layer is None else f"layer {layer}",
            index=layer,
            start=spans[layer][0],
            end=spans[layer][1],
            cycles=count,
            macs=macs[layer],
            utilization=macs[layer] / (array_n**2 * count),
        )
        for layer, count in cycles.items()
    ]


def _active(run, outcome):
    """Commands that were active, with their rows in the trace."""
    for index, command in enumerate(run.program.commands):
        rows = outcome.trace.get(command.engine.name.lower(), ())
        if index < len(rows) and rows[index]["busy"]:
            yield command, rows[index]
