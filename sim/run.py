"""The user's flow: a real model, or a layer of it, through quantiser, compiler and simulated accelerator, and back."""

from dataclasses import asdict, replace

from bertha.sim.build import build
from bertha.sim.job import read_outcome
from bertha.sim.launch import launch
from bertha.sim.layer_report import layer_report
from bertha.sim.locate import explain_difference, wave_time
from bertha.sim.model_report import model_report
from bertha.sim.options import run_name
from bertha.sim.packed import prepare_model
from bertha.sim.prepare import prepare, read_texts, run_folder, write_job
from bertha.sim.progress import PROGRESS_FILE, SimulationProgress
from bertha.sim.report import RunReport, write_report
from bertha.sim.report_page import write_report_page
from bertha.sim.tables import print_report
from bertha.sim.timeline import write_timeline

__all__ = ["run_layer", "run_model"]


def run_layer(options, console) -> RunReport:
    """Runs a layer, prints its tables and writes its report.

    Parameters
    ----------
    options : LayerOptions
    console : rich.console.Console
        For the tables and the progress.

    Returns
    -------
    RunReport

    Raises
    ------
    UserError, models.encoder.ModelError, models.text.TextError
        If an option, the model or the text can't be used.
    ToolError, SimulationError
        If building or simulating fails.
    """
    return _run(options, console, prepare, layer_report, "sequence")


def run_model(options, console) -> RunReport:
    """Runs a whole model on packed sentences, prints its tables and writes its report.

    Parameters
    ----------
    options : ModelOptions
    console : rich.console.Console

    The result and errors are those of `run_layer`.
    """
    return _run(options, console, prepare_model, model_report, "run")


def _run(options, console, prepare, report_of, what):
    def notify(line):
        console.print(f"{line} ...", style="dim", highlight=False, markup=False)

    def show_path(label, path):
        console.print(f"{label:<14} {path}", highlight=False, markup=False, soft_wrap=True)

    texts = read_texts(options)
    with run_folder(run_name(options, texts)) as folder:
        prepared = prepare(options, texts, notify=notify)
        simulation = build(prepared.config, waves=options.waves, notify=notify)
        write_job(folder, options, prepared)
        waves = folder / "waves.fst" if options.waves else None
        notify(_announcement(options, prepared.runs, what))
        cycles = [run.predicted for run in prepared.runs]
        with SimulationProgress(console, folder / PROGRESS_FILE, cycles=cycles, what=what) as progress:
            launch(
                simulation, "bertha.sim.program_bench", folder, expect=1, waves=waves, watch=progress.watch
            )
        outcomes = [read_outcome(folder, number) for number in range(len(prepared.runs))]
        report = report_of(options, prepared, outcomes)
        if not report.bit_exact:
            notify("running again, to find where it first differs")
            report = _explained(report, folder, simulation, prepared.runs, outcomes, progress.watch)
        page, timeline, file = (folder / name for name in ("report.html", "timeline.json", "report.json"))
        write_timeline(prepared.runs, outcomes, timeline)
        write_report_page(report, prepared.runs, outcomes, page)
        write_report(report, file)
        print_report(report, console)
        show_path("page", page)
        show_path("timeline", timeline)
        show_path("report", file)
        if waves:
            show_path("waves", waves)
    return report


def _explained(report, folder, simulation, runs, outcomes, watch):
    """The report with the first wrong result of a command, of the first run that is wrong."""
    number = next(number for number, item in enumerate(report.sequences) if not item["bit_exact"])
    sentence, place = explain_difference(
        folder, simulation, runs[number], number, outcomes[number], watch=watch
    )
    if place is not None:
        cycles = place.first_cycle, place.last_cycle
        times = [f"{wave_time(cycle, outcomes[number]):,}" for cycle in cycles]
        sentence += (
            f" (time {times[0]} to {times[1]} in waves.fst)"
            if simulation.waves
            else " (--waves records them)"
        )
    difference = f"{report.first_difference}; {sentence}"
    return replace(report, first_difference=difference, difference=None if place is None else asdict(place))


def _announcement(options, runs, what):
    def counted(number, what):
        return f"{number:,} {what}{'' if number == 1 else 's'}"

    rows = [run.program.tokens for run in runs]
    real = sum(int((run.ranges[:, 0] < run.ranges[:, 1]).sum()) for run in runs)
    each = counted(rows[0], "token") if len(set(rows)) == 1 else f"up to {counted(max(rows), 'token')}"
    return (
        f"simulating {counted(len(runs), what)} of {each} on {options.preset} "
        f"({real:,} real of {sum(rows):,}; some {sum(run.predicted for run in runs):,} cycles)"
    )
