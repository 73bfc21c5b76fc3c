"""What a run's cycles and bytes went to, operation by operation, and what bounds each: of a simulated run and of a prediction.

The array sets the pace, so its time is what is shared out: every cycle of a run belongs to the GEMM that the array
worked for, or stood still before. What is left behind the last GEMM belongs to the vector operation and the results
that it waits for. So the operations' cycles add up to the run's.

Bytes are those of the program's own DMA commands. Operands are followed through the scratchpad command by command
(`bertha.compiler.hazards.accesses`), so that what an operation reads twice is known to be the same.
"""

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from bertha.compiler.cycles.model import ACTIVITIES
from bertha.compiler.hazards.accesses import Space, accesses
from bertha.compiler.operations import EMBEDDING, PURPOSES, is_of_layer, layer_of, operation_of, purpose_of
from bertha.rtl.counters.classes import CycleClass, semaphore_class
from bertha.rtl.isa import Engine, Opcode

__all__ = [
    "CAUSES",
    "CommandTimes",
    "OperationCost",
    "attribute",
    "by_layer",
    "by_purpose",
    "cause_of_activity",
    "cause_of_class",
    "total_of",
]

CAUSES = ("array", "vector", "DRAM", "dependency")
"""What a cycle is spent for or lost to: one of the three resources, or an earlier result, the scratchpad."""

_RESOURCE = {Engine.LOAD: "DRAM", Engine.STORE: "DRAM", Engine.GEMM: "array", Engine.VECTOR: "vector"}
_OWN_CLASSES = (CycleClass.WORKING, CycleClass.FILLING)
_OWN_ACTIVITIES = ("working", "filling", "draining", "scaling")


def cause_of_class(engine, cycle_class) -> str:
    """The cause of an engine's cycle of a `CycleClass`, one of `CAUSES`."""
    if cycle_class in _OWN_CLASSES:
        return _RESOURCE[engine]
    if cycle_class in (CycleClass.DRAM_READ, CycleClass.DRAM_WRITE):
        return "DRAM"
    for other, resource in _RESOURCE.items():
        if cycle_class == semaphore_class(other) and other != engine:
            return resource
    return "dependency"


def cause_of_activity(engine, activity) -> str:
    """The same for the cycle model's activities."""
    if activity in _OWN_ACTIVITIES:
        return _RESOURCE[engine]
    if activity == "dram":
        return "DRAM"
    other = activity.removeprefix("wait_")
    if other != activity and Engine[other.upper()] != engine:
        return _RESOURCE[Engine[other.upper()]]
    return "dependency"


@dataclass(frozen=True, kw_only=True, eq=False)
class CommandTimes:
    """When a program's commands were active, and what their engines' cycles went to; arrays by position.

    Attributes
    ----------
    cycles : int
        From the doorbell to the end.
    busy, last : int64 [commands]
        Cycles in which a command was active, and the last of them, from the doorbell; zero if it never was.
    causes : int64 [commands, CAUSES]
        The engine's cycles from the end of its command before to this one's.
    undispatched : int64 [commands]
        Those of the causes' cycles in which the engine waited for a command to be dispatched; a dependency, for now.
    counts : int64 [commands]
        How often each stands for commands like it.
    """

    cycles: int
    busy: np.ndarray
    last: np.ndarray
    causes: np.ndarray
    undispatched: np.ndarray
    counts: np.ndarray

    @classmethod
    def of_trace(cls, program, trace, classes, cycles) -> "CommandTimes":
        """Of a simulated run.

        Parameters
        ----------
        program : Program
        trace : dict of str to array
            Rows of `bertha.sim.memory.Trace` by engine, from the doorbell.
        classes : dict of str to uint32 [commands, classes]
            `bertha.sim.memory.Trace.command_classes` by engine. Empty without cycle counters: causes are zero then.
        cycles : int
        """
        count = len(program.commands)
        busy, last, undispatched = np.zeros((3, count), np.int64)
        causes = np.zeros((count, len(CAUSES)), np.int64)
        for engine in _RESOURCE:
            rows, spent = trace[engine.name.lower()], classes.get(engine.name.lower(), ())
            active = np.flatnonzero(rows["busy"][:count])
            busy[active], last[active] = rows["busy"][active], rows["last"][active]
            if len(spent) and len(active):
                spent = _from_the_doorbell(spent, active[0], int(last[active[0]]) + 1)
                length = min(count, len(spent))
                causes[:length] += (spent @ _cause_matrix(engine))[:length]
                undispatched[:length] += spent[:length, CycleClass.COMMAND.value]
        return cls(
            cycles=cycles,
            busy=busy,
            last=last,
            causes=causes,
            undispatched=undispatched,
            counts=np.ones(count, np.int64),
        )

    @classmethod
    def of_prediction(cls, prediction) -> "CommandTimes":
        """Of a `bertha.compiler.predict.Prediction`."""
        rows = prediction.run.commands
        causes = np.zeros((len(rows), len(CAUSES)), np.int64)
        for number, command in enumerate(prediction.program.commands):
            if command.engine in _RESOURCE:
                for activity, spent in zip(ACTIVITIES, rows["activity"][number]):
                    if spent:
                        causes[number, CAUSES.index(cause_of_activity(command.engine, activity))] += spent
        return cls(
            cycles=prediction.cycles,
            busy=rows["busy"],
            last=np.where(rows["busy"] > 0, rows["last"], 0),
            causes=causes,
            undispatched=rows["activity"][:, ACTIVITIES.index("command")],
            counts=prediction.counts,
        )


def _from_the_doorbell(spent, first, cycles):
    """Classes by command without what was recorded before the doorbell, when the engine had nothing to do."""
    spent = spent.astype(np.int64)
    before = int(spent[first].sum()) - cycles
    for idle in (CycleClass.IDLE, CycleClass.COMMAND):
        taken = min(max(before, 0), int(spent[first, idle.value]))
        spent[first, idle.value] -= taken
        before -= taken
    return spent


def _cause_matrix(engine):
    """int64 [classes, CAUSES]: which cause each class is."""
    matrix = np.zeros((16, len(CAUSES)), np.int64)
    for cycle_class in CycleClass:
        matrix[cycle_class.value, CAUSES.index(cause_of_class(engine, cycle_class))] = 1
    return matrix


@dataclass(kw_only=True)
class OperationCost:
    """What an operation, or several, took.

    Attributes
    ----------
    layer : int or None
        None: of the embedding, or of several layers.
    name : str
        As in `bertha.compiler.operations.operation_of`, or one of `PURPOSES`, or the layer's.
    purpose : str
    commands : int
    cycles : int
        Of the run: those in which the array worked for it or stood still before it. Zero for what runs beside the array.
    busy : dict of str to int
        By engine, cycles in which one of its commands was active.
    causes : dict of str to int
        What the cycles of its engine went to, by `CAUSES`: of the array if it has GEMMs, else of the vector engine,
        else of DMA. Empty if nobody counted.
    macs : int
        The model's own multiply-accumulates.
    bytes_read, bytes_written : int
        That its DMA commands moved.
    least_bytes : int
        What of them has to be moved at all: weights, inputs and results once each, nothing through DRAM and back.
    operand_bytes : int
        Of each operand and result of its GEMMs once, wherever they are.
    """

    layer: int | None
    name: str
    purpose: str
    commands: int = 0
    cycles: int = 0
    busy: dict = field(default_factory=dict)
    causes: dict = field(default_factory=dict)
    macs: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    least_bytes: int = 0
    operand_bytes: int = 0

    @property
    def dram_bytes(self) -> int:
        """Bytes that its DMA commands moved."""
        return self.bytes_read + self.bytes_written

    @property
    def bound(self) -> str | None:
        """The cause of most of its cycles; None if nobody counted."""
        return max(self.causes, key=self.causes.get) if any(self.causes.values()) else None

    @property
    def intensity(self) -> float | None:
        """Multiply-accumulates a byte, every operand and result moved once; None without GEMMs."""
        return self.macs / self.operand_bytes if self.macs and self.operand_bytes else None

    @property
    def dram_intensity(self) -> float | None:
        """Multiply-accumulates a byte that was moved; None if there was none."""
        return self.macs / self.dram_bytes if self.macs and self.dram_bytes else None

    def as_dict(self) -> dict:
        """As JSON has it."""
        derived = ("dram_bytes", "bound", "intensity", "dram_intensity")
        return vars(self) | {name: getattr(self, name) for name in derived}


def attribute(program, times, ranges=None) -> list[OperationCost]:
    """The costs of every operation of every layer, in the order of layers and `PURPOSES`.

    Parameters
    ----------
    program : Program
        Compiled from layers.
    times : CommandTimes
    ranges : int [S, 2], optional
        The keys that each row sees: only those multiply-accumulates count. By default all do.
    """
    bytes_once, least = _operand_bytes(program).tolist(), _least_bytes(program).tolist()
    causes = _causes(program, times)
    costs, by_engine = {}, defaultdict(lambda: np.zeros(len(CAUSES), np.int64))
    end, last_gemm = 0, None
    for number, command in enumerate(program.commands):
        if command.engine == Engine.SEQUENCER or not is_of_layer(command):
            continue
        count, key = int(times.counts[number]), _key(command)
        if key not in costs:
            costs[key] = OperationCost(layer=key[0], name=key[1], purpose=purpose_of(key[1]))
        cost = costs[key]
        by_engine[key, command.engine] += count * causes[number]
        engine = command.engine.name.lower()
        cost.commands += count * bool(times.busy[number])
        cost.busy[engine] = cost.busy.get(engine, 0) + count * int(times.busy[number])
        cost.macs += count * command.macs(ranges)
        cost.bytes_read += count * command.dram_bytes * (command.opcode == Opcode.LOAD)
        cost.bytes_written += count * command.dram_bytes * (command.opcode == Opcode.STORE)
        cost.least_bytes += count * least[number]
        cost.operand_bytes += count * bytes_once[number]
        if command.engine == Engine.GEMM and times.busy[number]:
            now = int(times.last[number]) + 1
            cost.cycles += count * (now - end)
            end, last_gemm = now, number
    for key, cost in costs.items():
        spent = by_engine[key, _main_engine([cost])]
        cost.causes = dict(zip(CAUSES, spent.tolist())) if spent.any() else {}
    _add_tail(costs, program, times, last_gemm, end)
    order = {purpose: place for place, purpose in enumerate(PURPOSES)}
    return sorted(
        costs.values(), key=lambda cost: (-1 if cost.layer is None else cost.layer, order[cost.purpose])
    )


def _key(command):
    """Layer and operation."""
    operation = operation_of(command)
    return (layer_of(command.name) if operation != EMBEDDING else None), operation


def _causes(program, times):
    """int64 [commands, CAUSES], with waits for the dispatcher charged to what held it up.

    Commands are dispatched in order: one has to wait until all before it have a place in their engines' queues, and
    so for the engine that was the last to take the command which made room. If that was before the wait, there was
    room, and the command itself was still to come from DRAM.
    """
    causes, places = times.causes.copy(), program.config.queue_depth + 2
    ends = {engine: [0] for engine in _RESOURCE}  # of the engine's commands so far
    for number, command in enumerate(program.commands):
        mine = ends.get(command.engine)
        if mine is None:
            continue
        waited = int(times.undispatched[number])
        if waited:
            room = {e: of[-places] for e, of in ends.items() if e != command.engine and len(of) >= places}
            holder = max(room, key=room.get, default=None)
            held = holder is not None and room[holder] > mine[-1]
            causes[number, CAUSES.index("dependency")] -= waited
            causes[number, CAUSES.index(_RESOURCE[holder] if held else "DRAM")] += waited
        mine.append(max(mine[-1], int(times.last[number]) + 1 if times.busy[number] else 0))
    return causes


def _add_tail(costs, program, times, last_gemm, end):
    """Gives the cycles behind the last GEMM to what the run still waited for."""
    left = times.cycles - sum(cost.cycles for cost in costs.values())
    for engine in (Engine.VECTOR, Engine.STORE):
        late = [
            n
            for n, command in enumerate(program.commands)
            if command.engine == engine and times.busy[n] and times.last[n] >= end
        ]
        if late and left > 0:
            command, is_last = program.commands[late[-1]], engine == Engine.STORE
            spent = left if is_last else min(left, int(times.last[late[-1]]) + 1 - end)
            costs[_key(command)].cycles += spent
            left, end = left - spent, end + spent
    if left:
        costs[_key(program.commands[last_gemm])].cycles += left


def _least_bytes(program):
    """Bytes of each DMA command that no other has moved before, and that the program didn't put there itself."""
    config, (base, limit) = program.config, program.window
    line = config.line_bytes
    moved = np.zeros(-(-(limit - base) // line), bool)
    for address, count in program.scratch:
        moved[(address - base) // line : -(-(address + count - base) // line)] = True
    found = np.zeros(len(program.commands), np.int64)
    for number, command in enumerate(program.commands):
        if command.opcode in (Opcode.LOAD, Opcode.STORE):
            for access in accesses(command, 0, config, dram_base=base):
                if access.space == Space.DRAM:
                    found[number] += line * int(np.count_nonzero(~moved[access.first : access.end]))
                    moved[access.first : access.end] = True
    return found


def _operand_bytes(program):
    """Bytes of each GEMM that its operation hasn't read before, and that it writes.

    Every line of the scratchpad holds a number that says what is in it: the same after the same bytes of DRAM are
    loaded again, another one after every other write.
    """
    config, base = program.config, program.window[0]
    content = np.zeros(config.lines, np.int64)
    fresh = 1 + -(-(program.window[1] - base) // config.line_bytes)  # numbers below are those of DRAM's lines
    seen = {}
    found = np.zeros(len(program.commands), np.int64)
    for number, command in enumerate(program.commands):
        for tile in range(command.tiles if command.opcode in _TOUCH_SCRATCHPAD else 0):
            touched = accesses(command, tile, config, dram_base=base)
            if command.opcode == Opcode.LOAD:
                places = [access for access in touched if access.space == Space.SCRATCHPAD]
                sources = [access for access in touched if access.space == Space.DRAM]
                for place, source in zip(places, sources):
                    content[place.first : place.end] = np.arange(source.first + 1, source.end + 1)
                continue
            lines = 0
            for access in touched:
                if access.space != Space.SCRATCHPAD:
                    continue
                here = slice(access.first, access.end)
                if access.write:
                    size = access.end - access.first
                    content[here] = np.arange(fresh, fresh + size)
                    fresh, lines = fresh + size, lines + size
                elif command.opcode == Opcode.GEMM:
                    key = _key(command)
                    if key not in seen:
                        seen[key] = np.zeros(config.lines, np.int64)
                    lines += int(np.count_nonzero(seen[key][here] != content[here]))
                    seen[key][here] = content[here]
            if command.opcode == Opcode.GEMM:
                found[number] += lines * config.line_bytes
    return found


_TOUCH_SCRATCHPAD = (Opcode.LOAD, Opcode.GEMM, Opcode.SOFTMAX, Opcode.LAYERNORM, Opcode.QUANTIZE)


def _main_engine(costs):
    """The first of array, vector engine, load and store that did anything for them."""
    engines = (Engine.GEMM, Engine.VECTOR, Engine.LOAD, Engine.STORE)
    return next(engine for engine in engines if any(engine.name.lower() in cost.busy for cost in costs))


def total_of(costs, **identity) -> OperationCost:
    """Several operations' costs together, causes of the first engine that works for any of them alone.

    `identity` are layer, name and purpose of the result.
    """
    total = OperationCost(**identity)
    engine = _main_engine(costs).name.lower()
    for cost in costs:
        for name in (
            "commands",
            "cycles",
            "macs",
            "bytes_read",
            "bytes_written",
            "least_bytes",
            "operand_bytes",
        ):
            setattr(total, name, getattr(total, name) + getattr(cost, name))
        merging = [(total.busy, cost.busy)]
        if engine in cost.busy:
            merging.append((total.causes, cost.causes))
        for merged, counts in merging:
            for key, count in counts.items():
                merged[key] = merged.get(key, 0) + count
    return total


def by_purpose(costs) -> list[OperationCost]:
    """The costs of all layers by what they are for, in the order of `PURPOSES`."""
    groups = defaultdict(list)
    for cost in costs:
        groups[cost.purpose].append(cost)
    return [
        total_of(groups[purpose], layer=None, name=purpose, purpose=purpose)
        for purpose in PURPOSES
        if groups[purpose]
    ]


def by_layer(costs) -> list[OperationCost]:
    """The costs of the embedding and of every layer."""
    groups = defaultdict(list)
    for cost in costs:
        groups[cost.layer].append(cost)
    names = {layer: EMBEDDING if layer is None else f"layer {layer}" for layer in groups}
    return [total_of(members, layer=n, name=names[n], purpose=names[n]) for n, members in groups.items()]
