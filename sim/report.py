"""What a run found, as data and as JSON."""

import json
import os
from dataclasses import asdict, dataclass, field, replace

import numpy as np

from bertha.compiler.attribution import CommandTimes, attribute, total_of

__all__ = [
    "Operation",
    "RunReport",
    "describe_difference",
    "fold",
    "operations",
    "own_macs",
    "printable",
    "shared_figures",
    "write_report",
]


@dataclass(frozen=True, kw_only=True)
class Operation:
    """Commands of one engine that belong together.

    Attributes
    ----------
    name : str
    engine : str
    start, end : int
        First and last cycle in which one of them was active, from the doorbell.
    busy_cycles : int
        Cycles in which one of them was active.
    macs : int
        The model's own multiply-accumulates in it, of real tokens only.
    dram_bytes : int
    commands : int
    """

    name: str
    engine: str
    start: int
    end: int
    busy_cycles: int
    macs: int
    dram_bytes: int
    commands: int


def operations(commands, trace, ranges=None) -> list[Operation]:
    """Operations of a program in the order in which they start.

    Parameters
    ----------
    commands : list of compiler.program.Command
    trace : dict of str to array
        Rows of `bertha.sim.memory.Trace` by engine.
    ranges : int [S, 2], optional
        The keys that each row sees: only those multiply-accumulates count. By default all do.
    """
    single = []
    for index, command in enumerate(commands):
        engine = command.engine.name.lower()
        rows = trace.get(engine, ())
        if index < len(rows) and rows[index]["busy"]:
            row = rows[index]
            single.append(
                Operation(
                    name=command.name,
                    engine=engine,
                    start=int(row["first"]),
                    end=int(row["last"]),
                    busy_cycles=int(row["busy"]),
                    macs=command.macs(ranges),
                    dram_bytes=command.dram_bytes,
                    commands=1,
                )
            )
    return fold(single, lambda name: name)


def fold(items, name_of) -> list[Operation]:
    """Operations of the same engine whose `name_of(name)` is the same, as one each, in order of their start."""
    folded = {}
    for item in items:
        key = (name_of(item.name), item.engine)
        old = folded.get(key)
        folded[key] = Operation(
            name=key[0],
            engine=item.engine,
            start=min(item.start, old.start) if old else item.start,
            end=max(item.end, old.end) if old else item.end,
            busy_cycles=item.busy_cycles + (old.busy_cycles if old else 0),
            macs=item.macs + (old.macs if old else 0),
            dram_bytes=item.dram_bytes + (old.dram_bytes if old else 0),
            commands=item.commands + (old.commands if old else 0),
        )
    return sorted(folded.values(), key=lambda item: (item.start, item.end))


@dataclass(frozen=True, kw_only=True)
class RunReport:
    """Everything a run found; the fields are the keys of report.json.

    A multiply-accumulate counts as the model's own if it is one of the matrix products of real tokens, with real
    tokens: neither padding tokens, which the array works on all the same, nor duplicated columns count.

    Attributes
    ----------
    tokens, padding : int
        Real tokens and padding tokens, all sequences together.
    truncated : int
        Sequences whose text had more than S tokens.
    cycles : int
        From the doorbell write to the completion interrupt, all sequences together.
    macs : int
        The model's own multiply-accumulates, all sequences together.
    utilization : float
        macs / (N² · cycles).
    padded_macs, padded_utilization : int, float
        The same with padding tokens counted as if they were real.
    bit_exact : bool
        Every byte of every result equals the integer model's, and no other byte was changed.
    first_difference : str or None
        What is wrong with the result, and where that began.
    difference : dict or None
        Of a run that is wrong by the accelerator's fault: `bertha.sim.difference.Difference`, the first wrong result
        of a command.
    cosine_min, cosine_mean, snr_db, max_error : float
        Against PyTorch, over the real tokens of all sequences.
    layers : list
        Of a single layer's run its number, of a whole model's the `sim.cost.LayerCost` of each layer.
    ops : list of Operation
        Of the first sequence.
    sequences : list of dict
        Figures of each sequence; of a whole model's run, of each run of a program.
    useful_utilization : float
        Each sentence's own multiply-accumulates / (N² · cycles), that is, `utilization`.
    input_operand : {"host", "accelerator"}
        Who made the int8 operand of the first layer's input.
    sentences : list of dict
        Text, tokens and embedding cosine to PyTorch (None of a single layer) of each sentence.
    embedding_cosine_min, embedding_cosine_mean : float or None
    recipe, packing : str or None
        Of a whole model's run.
    embedding : LayerCost or None
        The embedding LayerNorm's, if the accelerator does it.
    kinds : list of sim.cost.KindCost
        Of a whole model's run, the cost by kind of operation.
    saturations : dict
        Of a whole model's run, saturated values by stream, where there are any.
    engines, array_waits : dict
        Where each engine's cycles went, all sequences together: cycles by engine and class, and of the array's waits
        by the engine that it waited for and the class that this one was in; see
        `bertha.runtime.engine_cycles.EngineCycles`. Empty of an accelerator without cycle counters.
    attribution : list of compiler.attribution.OperationCost
        Cycles, bytes and what bounds it of every operation of every layer, all sequences together.
    causes_from : {"counters", "model"}
        Whether its causes were counted, or are the cycle model's, of an accelerator without cycle counters.
    """

    preset: str
    array_n: int
    model: str
    trained: bool
    layers: list
    seq: int
    tokens: int
    padding: int
    truncated: int
    memory_latency: int
    memory_bandwidth: float
    cycles: int
    macs: int
    utilization: float
    padded_macs: int
    padded_utilization: float
    bit_exact: bool
    first_difference: str | None
    cosine_min: float
    cosine_mean: float
    snr_db: float
    max_error: float
    sim_seconds: float
    sim_cycles_per_second: float
    dram_bytes_read: int
    dram_bytes_written: int
    engine_busy: dict
    sequences: list
    ops: list
    useful_utilization: float
    input_operand: str
    sentences: list
    embedding_cosine_min: float | None = None
    embedding_cosine_mean: float | None = None
    recipe: str | None = None
    packing: str | None = None
    embedding: object = None
    kinds: list = field(default_factory=list)
    saturations: dict = field(default_factory=dict)
    engines: dict = field(default_factory=dict)
    array_waits: dict = field(default_factory=dict)
    difference: dict | None = None
    attribution: list = field(default_factory=list)
    causes_from: str | None = None

    @property
    def whole_model(self) -> bool:
        """Whether it is a whole model's run, not a single layer's."""
        return self.recipe is not None


def shared_figures(options, prepared, outcomes) -> dict:
    """The fields of a report that come from the runs alone, whatever ran.

    Parameters
    ----------
    options : LayerOptions or ModelOptions
    prepared : sim.prepare.Prepared or sim.packed.PreparedModel
    outcomes : list of sim.job.Outcome
        Of each of its runs.
    """
    runs, array_n = prepared.runs, prepared.config.array_n
    cycles = sum(outcome.cycles for outcome in outcomes)
    macs = sum(own_macs(run) for run in runs)
    padded_macs = sum(run.program.macs for run in runs)
    seconds = sum(outcome.seconds for outcome in outcomes)
    return {
        "preset": options.preset,
        "array_n": array_n,
        "model": options.model,
        "trained": prepared.encoder.trained,
        "seq": options.seq,
        "memory_latency": options.latency,
        "memory_bandwidth": prepared.bandwidth,
        "cycles": cycles,
        "macs": macs,
        "utilization": macs / (array_n**2 * cycles),
        "useful_utilization": macs / (array_n**2 * cycles),
        "padded_macs": padded_macs,
        "padded_utilization": padded_macs / (array_n**2 * cycles),
        "sim_seconds": seconds,
        "sim_cycles_per_second": cycles / seconds,
        "dram_bytes_read": sum(outcome.bytes_read for outcome in outcomes),
        "dram_bytes_written": sum(outcome.bytes_written for outcome in outcomes),
        "engine_busy": {
            name: sum(outcome.counters[f"{name}_busy"] for outcome in outcomes)
            for name in ("load", "store", "gemm", "vector")
        },
        "ops": operations(runs[0].program.commands, outcomes[0].trace, runs[0].ranges),
        "engines": _added(outcomes, "classes"),
        "array_waits": _added(outcomes, "array_waits"),
        "attribution": _attribution(runs, outcomes),
        "causes_from": "counters" if outcomes[0].classes else "model",
    }


def _attribution(runs, outcomes):
    """The costs of every operation of every layer, all runs together."""
    groups = {}
    for run, outcome in zip(runs, outcomes, strict=True):
        times = CommandTimes.of_trace(run.program, outcome.trace, outcome.classes, outcome.cycles)
        if not outcome.classes:
            model = CommandTimes.of_prediction(run.prediction)
            times = replace(times, causes=model.causes, undispatched=model.undispatched)
        for cost in attribute(run.program, times, run.ranges):
            groups.setdefault((cost.layer, cost.name), []).append(cost)
    return [
        total_of(costs, layer=layer, name=name, purpose=costs[0].purpose)
        for (layer, name), costs in groups.items()
    ]


def _added(outcomes, what):
    """The runs' counts by engine and class, all together."""
    total = {}
    for outcome in outcomes:
        for engine, classes in (outcome.engine_cycles or {}).get(what, {}).items():
            row = total.setdefault(engine, dict.fromkeys(classes, 0))
            for name, count in classes.items():
                row[name] += count
    return total


def own_macs(run) -> int:
    """Multiply-accumulates of the run's real tokens, each with those that it sees."""
    return sum(command.macs(run.ranges) for command in run.program.commands)


def printable(text) -> str:
    """The text without what a terminal would take for a command."""
    return "".join(char if char.isprintable() else " " for char in text).strip()


def write_report(report, file) -> None:
    """Writes report.json, whole or not at all."""
    found = asdict(report) | {"attribution": [cost.as_dict() for cost in report.attribution]}
    text = json.dumps(found, indent=2, default=lambda value: value.item())
    draft = file.with_name(f"{file.name}.new")
    draft.write_text(text + "\n", encoding="utf-8")
    os.replace(draft, file)


def describe_difference(result, expected) -> str | None:
    """Where two integer arrays first differ, or None."""
    places = np.argwhere(result != expected)
    if not len(places):
        return None
    token, feature = places[0]
    return (
        f"{len(places):,} of {expected.size:,} values, first at token {token}, feature {feature}: "
        f"{result[token, feature]} instead of {expected[token, feature]}"
    )
