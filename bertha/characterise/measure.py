"""What one point of the study takes, in a worker's process: cycles by operation, bytes by level, energy."""

from collections import defaultdict
from dataclasses import asdict

from bertha.characterise.energy import Activity, energy
from bertha.compiler.hazards.accesses import Space, accesses
from bertha.compiler.operations import operation_of, purpose_of
from bertha.compiler.predict import Timing
from bertha.prediction import predict_workload
from bertha.rtl.isa import Opcode
from bertha.sweep.work import guarded, workload_of

__all__ = ["REST", "array_time", "measure_points", "memory_waits", "summary"]

REST = "end"
"""Where the array's cycles behind its last command go."""

_LANE_MULTIPLICATIONS = {
    Opcode.SOFTMAX: 0,
    Opcode.QUANTIZE: 1,
    Opcode.LAYERNORM: 3,
}  # of a word, in each lane


def measure_points(points) -> list[dict]:
    """Results of points, one after another; one that fails has an `error`."""
    return [guarded(_measured, point) for point in points]


def _measured(point):
    timing = Timing(memory=point.latency, bandwidth=point.bytes_per_cycle)
    return summary(predict_workload(workload_of(point), point.config, timing))


def summary(prediction) -> dict:
    """A prediction as the study's tables want it.

    Returns
    -------
    dict
        `cycles`, `macs`, `utilization`, `bytes_read`, `bytes_written`; `time`: the array's cycles by kind of operation, those
        in which it waits for the operation among them; `stalls`: of these, those in which it waits for memory (`memory_waits`); `vector`: busy
        cycles of the vector engine by kind; `dram`: bytes by what they are; `scratchpad_bytes`, `macs_8` and
        the like of `Activity`; `energy`: estimated pJ by where they go.
    """
    program = prediction.program
    activity = _activity(prediction)
    return {
        **prediction.totals,
        "time": array_time(prediction),
        "stalls": memory_waits(prediction),
        "vector": {k.name: k.busy for k in prediction.kinds if k.engine == "vector"},
        "dram": _dram(prediction),
        **asdict(activity),
        "energy": energy(activity, program.config.scratchpad_bytes),
    }


def array_time(prediction) -> dict[str, int]:
    """The array's cycles by kind of operation, waits before its commands included; they add up to the run's."""
    time = {k.name: sum(k.activity.values()) for k in prediction.kinds if k.engine == "gemm"}
    return {**time, REST: prediction.cycles - sum(time.values())}


def memory_waits(prediction) -> dict[str, int]:
    """The array's cycles, by kind of operation, in which it waits for loads or for commands.

    Commands come in order, so those of the array that stand behind a LOAD whose queue is full come late.
    """
    return {
        kind.name: kind.activity.get("wait_load", 0) + kind.activity.get("command", 0)
        for kind in prediction.kinds
        if kind.engine == "gemm"
    }


def _counted(prediction):
    """The program's commands, and how often each counts."""
    return zip(prediction.program.commands, prediction.counts.tolist(), strict=True)


def _dram(prediction):
    """Bytes of DRAM by what they are: weights by the operation that they are of, all else, the program."""
    moved = defaultdict(int)
    for command, times in _counted(prediction):
        if command.opcode in (Opcode.LOAD, Opcode.STORE):
            part = "activations"
            if ".weights." in command.name:
                part = f"weights of {purpose_of(operation_of(command))}"
            elif command.name.rsplit(".", 1)[-1] in ("records", "table"):
                part = "records"
            moved[part] += times * command.dram_bytes
    total = prediction.bytes_read + prediction.bytes_written
    return {**moved, "program and rest": total - sum(moved.values())}


def _activity(prediction):
    config = prediction.program.config
    base = prediction.program.window[0]
    lines = macs = multiplications = 0
    for command, times in _counted(prediction):
        tiles = command.tiles
        found = accesses(command, 0, config, dram_base=base)  # the same of every tile
        lines += (
            times
            * tiles
            * sum(access.end - access.first for access in found if access.space == Space.SCRATCHPAD)
        )
        if command.opcode == Opcode.GEMM:
            passes = 2 if command.get("wide") else 1
            macs += times * tiles * passes * command.get("k") * config.array_n**2
            multiplications += times * tiles * command.get("columns") * config.array_n
        elif command.opcode in _LANE_MULTIPLICATIONS:
            each = _LANE_MULTIPLICATIONS[command.opcode]
            multiplications += times * each * command.get("words") * config.array_n
    return Activity(
        dram_bytes=prediction.bytes_read + prediction.bytes_written,
        scratchpad_bytes=lines * config.line_bytes,
        macs_8=macs,
        multiplications=multiplications,
    )
