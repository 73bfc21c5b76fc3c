"""The user's flow: a real encoder layer through quantiser, compiler and simulated accelerator, and back."""

from bertha.golden import integer_model
from bertha.golden.metrics import agreement, pooled
from bertha.sim.build import build
from bertha.sim.job import read_outcome
from bertha.sim.launch import launch
from bertha.sim.options import run_name
from bertha.sim.prepare import prepare, read_texts, run_folder, write_job
from bertha.sim.progress import PROGRESS_FILE, SimulationProgress
from bertha.sim.report import RunReport, describe_difference, operations, print_report, write_report

__all__ = ["run_layer"]


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

    def notify(what):
        console.print(f"{what} ...", style="dim", highlight=False, markup=False)

    def show_path(label, path):
        console.print(f"{label:<14} {path}", highlight=False, markup=False, soft_wrap=True)

    texts = read_texts(options)
    with run_folder(run_name(options, texts)) as folder:
        prepared = prepare(options, texts, notify=notify)
        sequences = prepared.sequences
        simulation = build(prepared.config, waves=options.waves, notify=notify)
        job = write_job(folder, options, prepared, sequences=sequences)
        waves = folder / "waves.fst" if options.waves else None
        notify(_announcement(options, sequences))
        with SimulationProgress(
            console, folder / PROGRESS_FILE, sequences=len(sequences), cycles=prepared.predicted
        ) as progress:
            launch(
                simulation, "bertha.sim.program_bench", folder, expect=1, waves=waves, watch=progress.watch
            )
        outcomes = [read_outcome(folder, number) for number in range(len(sequences))]
        report = _report(options, prepared, outcomes, job)
        file = folder / "report.json"
        write_report(report, file)
        print_report(report, console)
        show_path("report", file)
        if waves:
            show_path("waves", waves)
    return report


def _announcement(options, sequences):
    def counted(number, what):
        return f"{number:,} {what}{'' if number == 1 else 's'}"

    real = sum(sequence.sentence.tokens for sequence in sequences)
    return (
        f"simulating {counted(len(sequences), 'sequence')} of {counted(options.seq, 'token')} on {options.preset} "
        f"({real:,} real of {len(sequences) * options.seq:,})"
    )


def _printable(text):
    """The text without what a terminal would take for a command."""
    return "".join(char if char.isprintable() else " " for char in text).strip()


def _compare(prepared, sequence, outcome):
    """The sequence's figures, and its dequantised result."""
    layer, array_n = prepared.layer, prepared.config.array_n
    expected = integer_model.run_layer(layer, sequence.x16, sequence.ranges)["output16"]
    result = prepared.program.unpack_output(outcome.output.tobytes())
    difference = describe_difference(result, expected)
    if difference is None and outcome.stray_bytes:
        difference = f"{outcome.stray_bytes} bytes outside the results and the scratch were changed"
    values = integer_model.dequantise(result, layer.output_scale)
    found = agreement(values, sequence.reference, sequence.sentence.mask)
    tokens, mask = sequence.sentence.tokens, sequence.sentence.mask
    macs = sum(command.macs(sequence.ranges) for command in prepared.program.commands)
    figures = {
        "name": _printable(sequence.sentence.text[:60]) or "random tokens",
        "tokens": tokens,
        "padding": len(mask) - tokens,
        "truncated": sequence.sentence.truncated,
        "cycles": outcome.cycles,
        "macs": macs,
        "utilization": macs / (array_n**2 * outcome.cycles),
        "bit_exact": difference is None,
        "first_difference": difference,
        "cosine_min": found.cosine_min,
        "cosine_mean": found.cosine_mean,
        "snr_db": found.snr_db,
        "max_error": found.max_error,
        "sim_seconds": outcome.seconds,
    }
    return figures, values


def _report(options, prepared, outcomes, job):
    array_n, sequences = prepared.config.array_n, prepared.sequences
    compared = [
        _compare(prepared, sequence, outcome) for sequence, outcome in zip(sequences, outcomes, strict=True)
    ]
    figures = [item for item, _ in compared]
    masks = [sequence.sentence.mask for sequence in sequences]
    whole = pooled([values for _, values in compared], [s.reference for s in sequences], masks)
    cycles, macs = sum(item["cycles"] for item in figures), sum(item["macs"] for item in figures)
    padded_macs = prepared.program.macs * len(sequences)
    seconds = sum(outcome.seconds for outcome in outcomes)
    different = next((item["first_difference"] for item in figures if not item["bit_exact"]), None)
    return RunReport(
        preset=options.preset,
        array_n=array_n,
        model=options.model,
        trained=prepared.encoder.trained,
        layers=[options.layer],
        seq=options.seq,
        tokens=sum(item["tokens"] for item in figures),
        padding=sum(item["padding"] for item in figures),
        truncated=sum(item["truncated"] for item in figures),
        memory_latency=job.latency,
        memory_bandwidth=job.bandwidth,
        cycles=cycles,
        macs=macs,
        utilization=macs / (array_n**2 * cycles),
        padded_macs=padded_macs,
        padded_utilization=padded_macs / (array_n**2 * cycles),
        bit_exact=different is None,
        first_difference=different,
        cosine_min=whole.cosine_min,
        cosine_mean=whole.cosine_mean,
        snr_db=whole.snr_db,
        max_error=whole.max_error,
        sim_seconds=seconds,
        sim_cycles_per_second=cycles / seconds,
        dram_bytes_read=sum(outcome.bytes_read for outcome in outcomes),
        dram_bytes_written=sum(outcome.bytes_written for outcome in outcomes),
        engine_busy={
            name: sum(outcome.counters[f"{name}_busy"] for outcome in outcomes)
            for name in ("load", "store", "gemm", "vector")
        },
        sequences=figures,
        ops=operations(prepared.program.commands, outcomes[0].trace, sequences[0].ranges),
    )
