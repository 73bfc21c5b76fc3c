"""Predicts what a program takes, without simulating the hardware: cycles, and what each engine's cycles went to.

The cycle model (`bertha.compiler.cycles`) goes through the program cycle by cycle, without its data.
"""

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bertha.compiler.cycles.model import ACTIVITIES, ENGINES, Run, run_commands
from bertha.compiler.operations import KINDS, kind_of, layer_of
from bertha.rtl.isa import COMMAND_BYTES, Opcode

__all__ = ["KindPrediction", "LayerPrediction", "Prediction", "Timing", "default_timing", "predict"]


@dataclass(frozen=True, kw_only=True)
class Timing:
    """The memory (`bertha.sim.memory.Memory.set_timing`).

    Attributes
    ----------
    memory : int
        Cycles from an address to its first beat, and from a last beat to its acknowledgement.
    bandwidth : float or None
        Bytes a cycle, reads and writes together; None: whatever the bus can move.
    """

    memory: int = 100
    bandwidth: float | None = None


USUAL_BANDWIDTH = 8  # bytes a cycle, unless the bus moves more


def default_timing(config) -> Timing:
    """With the memory that runs are simulated with, unless another is asked for."""
    return Timing(bandwidth=max(USUAL_BANDWIDTH, config.axi_data_bytes))


@dataclass(frozen=True, kw_only=True)
class KindPrediction:
    """What one engine's cycles went to for one kind of operation, all layers together.

    Attributes
    ----------
    name : str
        One of `bertha.compiler.operations.KINDS`.
    engine : str
    commands : int
    busy : int
        Cycles in which one of its commands was active.
    activity : dict
        Cycles by activity, those before each command since the engine's last one among them. Over all kinds and
        what is behind the last command, they are the program's cycles.
    macs : int
        The model's own multiply-accumulates.
    dram_bytes : int
    """

    name: str
    engine: str
    commands: int
    busy: int
    activity: dict
    macs: int
    dram_bytes: int


@dataclass(frozen=True, kw_only=True)
class LayerPrediction:
    """What one layer takes: from the end of the layer before in the array to its own.

    Attributes
    ----------
    name : str
        The first layer's cycles begin at the doorbell and have the embedding's, the last one's end at the interrupt.
    count : int
        Equal layers that this one stands for.
    cycles, macs : int
        Of one of them.
    utilization : float
    activity : dict of dict
        Cycles by engine and activity; of every engine they add up to `cycles`.
    """

    name: str
    count: int
    cycles: int
    macs: int
    utilization: float
    activity: dict


@dataclass(frozen=True, kw_only=True, eq=False)
class Prediction:
    """What a program takes.

    Attributes
    ----------
    cycles : int
        As the accelerator's counter has them: from the doorbell until everything is quiet.
    macs : int
    utilization : float
        macs / (N² · cycles).
    busy : dict
        Cycles by engine in which a beat, word pair or vector command was active: the RTL's busy counters.
    bytes_read, bytes_written : int
        On the bus, the program's own among them.
    activity : dict of dict
        What each engine's cycles went to; of every engine they add up to `cycles`.
    program : Program
    run : Run
        Of the program as it is.
    repeats : int
        How often its layer 1 is counted.
    """

    cycles: int
    macs: int
    utilization: float
    busy: dict
    bytes_read: int
    bytes_written: int
    activity: dict
    program: object
    run: Run
    repeats: int = 1

    @property
    def totals(self) -> dict:
        """Cycles, multiply-accumulates, utilisation and bytes of the run, by name."""
        names = ("cycles", "macs", "utilization", "bytes_read", "bytes_written")
        return {name: getattr(self, name) for name in names}

    @cached_property
    def kinds(self) -> list[KindPrediction]:
        """By kind of operation and engine, of a program that was compiled from layers."""
        totals = defaultdict(lambda: np.zeros(4 + len(ACTIVITIES), dtype=np.int64))
        for command, row, weight in self._counted():
            key = KINDS.index(kind_of(command)), command.engine
            macs = command.macs(self.program.ranges)
            totals[key] += weight * np.array([1, row["busy"], macs, command.dram_bytes, *row["activity"]])
        return [
            KindPrediction(
                name=KINDS[kind],
                engine=engine.name.lower(),
                commands=int(count),
                busy=int(busy),
                macs=int(macs),
                dram_bytes=int(moved),
                activity=_by_name(activity),
            )
            for (kind, engine), (count, busy, macs, moved, *activity) in sorted(totals.items())
        ]

    @cached_property
    def layers(self) -> list[LayerPrediction]:
        """Layer by layer, of a program that was compiled from layers."""
        macs = defaultdict(int)
        for command in self.program.commands:
            if command.work:
                macs[layer_of(command.name) or 0] += command.macs(self.program.ranges)
        found, number = [], 0
        for layer, count, (start, spent), (end, now) in self._spans():
            cycles = int(end - start)
            found.append(
                LayerPrediction(
                    name=f"layer {number}" if count == 1 else f"layers {number} to {number + count - 1}",
                    count=count,
                    cycles=cycles,
                    macs=macs[layer],
                    utilization=macs[layer] / (self.program.config.array_n**2 * cycles),
                    activity=_by_engine(now - spent),
                )
            )
            number += count
        return found

    def _spans(self):
        """Layers of the program, how many they stand for, and cycles and activity at their beginnings and ends."""
        start = 0, np.zeros_like(self.run.activity)
        ends = [(shot["cycles"], shot["activity"]) for shot in self.run.snapshots]
        marks = [start, *ends[:-1], (self.run.cycles, self.run.activity)]
        return [
            (layer, self.repeats if layer == 1 else 1, marks[layer], marks[layer + 1])
            for layer in range(len(ends))
        ]

    @cached_property
    def counts(self) -> np.ndarray:
        """int64 [commands]: how often each command of the program counts."""
        again = [self.repeats > 1 and _is_of_layer(command, 1) for command in self.program.commands]
        return np.where(again, self.repeats, 1)

    def _counted(self):
        """Commands that are active or have operations of their own, their results, and how often they count."""
        for command, row, count in zip(self.program.commands, self.run.commands, self.counts, strict=True):
            if row["busy"] or command.work:
                yield command, row, count


def predict(program, timing=None, *, layers=None) -> Prediction:
    """What a program takes.

    Parameters
    ----------
    program : Program
    timing : Timing, optional
    layers : int, optional
        Layers of the model, if the program has only some of them, three at least: its layer 1 then stands for all
        between the first and the last one.

    Raises
    ------
    ToolError
        If the model can't be compiled: it needs a C++ compiler.
    ValueError
        If the program has too few layers to stand for so many.
    """
    timing = timing or Timing()
    marks = _layer_ends(program)
    repeats = 1
    if layers is not None and layers != len(marks):
        if len(marks) < 3 or layers < len(marks):
            raise ValueError(f"{len(marks)} layers can't stand for {layers}")
        repeats = layers - len(marks) + 1
    run = run_commands(
        program.commands, program.config, latency=timing.memory, bandwidth=timing.bandwidth, marks=marks
    )
    cycles, activity, macs = run.cycles, run.activity, program.macs
    read, written = run.bytes_read, run.bytes_written
    busy = defaultdict(int)
    for command, row in zip(program.commands, run.commands, strict=True):
        busy[command.engine.name.lower()] += int(row["busy"])
    if repeats > 1:
        again = repeats - 1
        first, second = run.snapshots[:2]
        cycles = cycles + again * int(second["cycles"] - first["cycles"])
        activity = activity + again * (second["activity"] - first["activity"])
        for command, row in zip(program.commands, run.commands, strict=True):
            if not _is_of_layer(command, 1):
                continue
            busy[command.engine.name.lower()] += again * int(row["busy"])
            macs += again * command.macs()
            read += again * (COMMAND_BYTES + command.dram_bytes * (command.opcode == Opcode.LOAD))
            written += again * command.dram_bytes * (command.opcode == Opcode.STORE)
    return Prediction(
        cycles=cycles,
        macs=macs,
        utilization=macs / (program.config.array_n**2 * cycles),
        busy={engine: count for engine, count in busy.items() if count},
        bytes_read=read,
        bytes_written=written,
        activity=_by_engine(activity),
        program=program,
        run=run,
        repeats=repeats,
    )


def _is_of_layer(command, number):
    """Whether a command is one of a layer's."""
    return command.name.startswith(f"layer{number}.") and layer_of(command.name) == number


def _layer_ends(program):
    """Positions of the last GEMM of each layer."""
    if program.output16 is None:
        return []
    ends = {}
    for number, command in enumerate(program.commands):
        if command.opcode == Opcode.GEMM:
            ends[layer_of(command.name)] = number
    ends.pop(None, None)
    return [ends[layer] for layer in sorted(ends)]


def _by_name(activity):
    return {name: int(cycles) for name, cycles in zip(ACTIVITIES, activity, strict=True) if cycles}


def _by_engine(activity):
    return {engine: _by_name(row) for engine, row in zip(ENGINES, activity, strict=True)}
