"""Finds where a run first went wrong, by making it once more and looking at all that it writes."""

from bertha.sim.difference import Difference, ExpectedWrites, first_store_difference, first_write_difference
from bertha.sim.job import WATCHED_FILE, Job, read_outcome, read_watched
from bertha.sim.launch import launch
from bertha.sim.progress import PROGRESS_FILE

__all__ = ["explain_difference", "wave_time"]

_STEPS = 2  # of a wave file's time in a clock cycle (`half_period` in `sim/hdl/cocotb_main.cpp`)


def explain_difference(folder, simulation, run, number, outcome, *, watch) -> tuple[str, Difference | None]:
    """Where run `number` of a job differs first: a sentence, and the place if the accelerator is to blame.

    Parameters
    ----------
    folder : Path
        With the job.
    simulation : Simulation
    run : sim.prepare.Sequence or sim.packed.PackedRun
    number : int
    outcome : Outcome
        Of the run whose result is wrong.
    watch : function
        Called now and then while the job runs again.

    Raises
    ------
    SimulationError
        If the job fails.
    """
    expected = ExpectedWrites(run.program, run.pieces)
    target = run.program.output16
    result = expected.read(target.address, target.nbytes(run.program.config.array_n))
    if result == outcome.output.tobytes() and not outcome.stray_bytes:
        return (
            "the accelerator did what every command of its program says, so compiler or integer model are to blame"
        ), None
    job = Job.read(folder)
    again = Job(**{**vars(job), "runs": job.runs[: number + 1], "watched": number})
    again.write_description(folder)
    (folder / PROGRESS_FILE).unlink(missing_ok=True)
    launch(simulation, "bertha.sim.program_bench", folder, expect=1, watch=watch)
    job.write_description(folder)
    rows, contents, memory = read_watched(folder)
    (folder / WATCHED_FILE).unlink()  # it is large
    outcome = read_outcome(folder, number)
    found = first_write_difference(expected, rows, contents, trace=outcome.trace, doorbell=outcome.doorbell)
    if found is None:
        found = first_store_difference(expected, memory, trace=outcome.trace)
    if found is None:
        return "it did not happen again when the run was repeated to find where", None
    return str(found), found


def wave_time(cycle, outcome) -> int:
    """Time in the wave file, in its steps, of a cycle that is counted from a run's doorbell."""
    return _STEPS * (outcome.doorbell + cycle) - 1  # clock edge 1 is at time 1
