"""Programs with their memory images and inputs, as files: what a run hands to the process that simulates."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

__all__ = [
    "WATCHED_FILE",
    "Job",
    "JobProgram",
    "Outcome",
    "read_outcome",
    "read_watched",
    "write_outcome",
    "write_watched",
]

_JOB = "job.json"
WATCHED_FILE = "watched.npz"


@dataclass(frozen=True, kw_only=True)
class JobProgram:
    """One of a job's programs.

    Attributes
    ----------
    program_address, commands : int
    window : (int, int)
        First byte of DRAM that may be accessed, and first byte after: the simulated memory.
    output : (int, int)
        First byte and bytes of the results.
    scratch : list of (int, int)
        First byte and bytes of each region beside the results that the program may change.
    timeout : int
        Cycles that one run may take.
    """

    program_address: int
    commands: int
    window: tuple
    output: tuple
    scratch: list
    timeout: int

    @classmethod
    def of(cls, program, *, timeout) -> "JobProgram":
        """Of a `compiler.program.Program`."""
        return cls(
            program_address=program.program_address,
            commands=len(program.commands),
            window=program.window,
            output=(program.output16.address, program.output16.nbytes(program.config.array_n)),
            scratch=program.scratch,
            timeout=timeout,
        )


@dataclass(frozen=True, kw_only=True)
class Job:
    """Runs, one after the other, of one program or several.

    Attributes
    ----------
    config : dict
        Parameters of the accelerator (`Config.as_dict`).
    programs : list of JobProgram
    runs : list of int
        The program of each run, by its number.
    latency : int
        Of the memory, in cycles.
    bandwidth : float
        Of the memory, in bytes a cycle.
    watched : int or None
        The number of a run of which all that it wrote is kept, too (`write_watched`).
    """

    config: dict
    programs: list
    runs: list
    latency: int
    bandwidth: float
    watched: int | None = None

    def write(self, folder, *, pieces, inputs) -> None:
        """Writes the job into `folder`.

        Parameters
        ----------
        pieces : list of list of (int, bytes)
            The memory of each program before its first run, by address.
        inputs : list of list of (int, bytes)
            What each run puts into it.
        """
        folder = Path(folder)
        for number, (program, contents) in enumerate(zip(self.programs, pieces, strict=True)):
            start, end = program.window
            image = np.zeros(end - start, np.uint8)
            for address, content in contents:
                image[address - start : address - start + len(content)] = np.frombuffer(content, np.uint8)
            image.tofile(_image_file(folder, number))
        for number, parts in enumerate(inputs):
            arrays = {str(address): np.frombuffer(content, np.uint8) for address, content in parts}
            np.savez(folder / f"input{number}.npz", **arrays)
        self.write_description(folder)

    def write_description(self, folder) -> None:
        """Writes what the job is, without its memory and inputs."""
        (Path(folder) / _JOB).write_text(json.dumps(asdict(self), indent=2), encoding="utf-8")

    @classmethod
    def read(cls, folder) -> "Job":
        """The job in `folder`."""
        values = json.loads((Path(folder) / _JOB).read_text(encoding="utf-8"))
        programs = [JobProgram(**program) for program in values.pop("programs")]
        return cls(programs=programs, **values)

    @staticmethod
    def image(folder, program) -> np.ndarray:
        """The memory before the first run of the program of that number, a byte array."""
        return np.fromfile(_image_file(Path(folder), program), np.uint8)

    @staticmethod
    def input_pieces(folder, number) -> list[tuple[int, np.ndarray]]:
        """What run `number` puts into memory: a list of (address, byte array)."""
        with np.load(Path(folder) / f"input{number}.npz") as arrays:
            return [(int(address), arrays[address]) for address in arrays.files]


def _image_file(folder, program):
    return folder / f"image{program}.bin"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What one run gave.

    Attributes
    ----------
    output : uint8 array
    trace : dict of str to array
        Rows of `bertha.sim.memory.Trace` by engine, cycles counted from the doorbell.
    cycles : int
        From the doorbell write to the interrupt.
    counters : dict
        The accelerator's own counters, by register.
    bytes_read, bytes_written : int
        On the memory's port, the program's commands included.
    stray_bytes : int
        Bytes outside the results and the scratch that are not what they were before.
    seconds : float
        Wall-clock time.
    doorbell : int
        Clock edge of the doorbell write, from the simulation's first one on.
    engine_cycles : dict or None
        `bertha.runtime.engine_cycles.EngineCycles` as a dict; None of an accelerator without cycle counters.
    classes : dict of str to array
        `bertha.sim.memory.Trace.command_classes` by engine; empty of an accelerator without cycle counters.
    stretches : array or None
        `bertha.sim.memory.Trace.stretches`, from cycle `stretches_start` on, counted from the doorbell.
    """

    output: np.ndarray
    trace: dict
    cycles: int
    counters: dict
    bytes_read: int
    bytes_written: int
    stray_bytes: int
    seconds: float
    doorbell: int = 0
    engine_cycles: dict | None = None
    classes: dict = field(default_factory=dict)
    stretches: np.ndarray | None = None
    stretches_start: int = 0


_ARRAYS = ("output", "trace", "classes", "stretches")


def write_outcome(folder, number, outcome) -> None:
    """Writes the outcome of run `number` into `folder`."""
    folder = Path(folder)
    arrays = {"output": outcome.output} | {f"trace_{name}": rows for name, rows in outcome.trace.items()}
    arrays |= {f"classes_{name}": rows for name, rows in outcome.classes.items()}
    if outcome.stretches is not None:
        arrays["stretches"] = outcome.stretches
    np.savez(folder / f"output{number}.npz", **arrays)
    figures = {name: value for name, value in vars(outcome).items() if name not in _ARRAYS}
    (folder / f"outcome{number}.json").write_text(json.dumps(figures), encoding="utf-8")


def read_outcome(folder, number) -> Outcome:
    """The outcome of run `number` in `folder`."""
    folder = Path(folder)
    figures = json.loads((folder / f"outcome{number}.json").read_text(encoding="utf-8"))
    with np.load(folder / f"output{number}.npz") as arrays:
        found = {name: arrays[name] for name in arrays.files}
    return Outcome(
        output=found["output"],
        trace=_by_engine(found, "trace_"),
        classes=_by_engine(found, "classes_"),
        stretches=found.get("stretches"),
        **figures,
    )


def write_watched(folder, rows, contents, memory) -> None:
    """Writes what the watched run left: lines written to the scratchpad (`bertha.sim.writes.WriteLog`) and the memory."""
    np.savez(Path(folder) / WATCHED_FILE, rows=rows, contents=contents, memory=memory)


def read_watched(folder) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What `write_watched` wrote."""
    with np.load(Path(folder) / WATCHED_FILE) as arrays:
        return arrays["rows"], arrays["contents"], arrays["memory"]


def _by_engine(arrays, prefix):
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
