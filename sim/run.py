"""The user's flow: a real encoder layer through quantiser, compiler and simulated accelerator, and back."""

import contextlib
import fcntl
import re
from dataclasses import dataclass
from pathlib import Path

from compiler.compile import compile_layer
from compiler.predict import Timing, predict
from golden import integer_model, text
from golden.floating import layer_reference
from golden.metrics import agreement, pooled
from golden.models import load_model
from golden.quantize import Duplicates, Settings, cached_layer
from rtl.config import preset
from sim.build import BUILD, build
from sim.errors import UserError
from sim.job import Job, read_outcome
from sim.launch import launch
from sim.progress import PROGRESS_FILE, SimulationProgress
from sim.report import RunReport, describe_difference, operations, print_report, write_report

__all__ = ["LayerOptions", "prepare", "run_folder", "run_layer", "write_job"]

_TIMEOUT_FACTOR = 4  # a run may take so many times the predicted cycles
_SPARE_CYCLES = 1_000_000


@dataclass(frozen=True, kw_only=True)
class LayerOptions:
    """What to run.

    Attributes
    ----------
    model : str
        Name or folder, see `golden.models.load_model`.
    layer : int
    seq : int
        Tokens (S): shorter sentences are padded and masked, longer ones truncated.
    preset : str
    text : Path or None
        File with a sentence a line; without it a film review of at least S tokens, or random
        tokens for a model without a tokenizer.
    latency : int
        Of the memory, in cycles.
    bandwidth : float or None
        Of the memory in bytes a cycle; by default 8, or the width of the bus if that is more.
    waves : bool
        Whether to write waves (FST).
    duplicates : tuple of int
        Duplicated channels (outlier channel splitting) of the projections, the output projection,
        the intermediate and the down layer.
    """

    model: str = "minilm"
    layer: int = 0
    seq: int = 128
    preset: str = "edge16"
    text: Path | None = None
    latency: int = 100
    bandwidth: float | None = None
    waves: bool = False
    duplicates: tuple = (0, 0, 0, 0)

    @property
    def run(self):
        """Name of the run, which is that of its folder below build/sim."""
        parts = [self.model, f"layer{self.layer}", f"s{self.seq}", self.preset]
        if any(self.duplicates):
            parts.append("d" + "-".join(str(count) for count in self.duplicates))
        if self.text:
            parts.append(self.text.name)
        return re.sub(r"[^A-Za-z0-9_.-]+", "_", "-".join(parts)).strip("_")


def _checked_config(options):
    try:
        config = preset(options.preset)
    except ValueError as error:
        raise UserError(str(error)) from None
    if options.seq < 1:
        raise UserError(f"seq must be at least 1 token, not {options.seq}")
    if len(options.duplicates) != 4 or min(options.duplicates) < 0:
        raise UserError(
            "duplicates must be four numbers from 0 such as 0,0,4,4, not "
            + ",".join(str(count) for count in options.duplicates)
        )
    if options.latency < 1:
        raise UserError(f"latency must be at least 1 cycle, not {options.latency}")
    if options.bandwidth is not None and not options.bandwidth > 0:
        raise UserError(f"bandwidth must be more than 0 bytes a cycle, not {options.bandwidth:g}")
    return config


def _checked_encoder(options):
    encoder = load_model(options.model)
    if not 0 <= options.layer < encoder.layers:
        raise UserError(f"layer must be from 0 to {encoder.layers - 1} in {options.model}, not {options.layer}")
    return encoder


def _sentences(encoder, options):
    if options.text:
        return text.tokenize(encoder, text.read_sentences(options.text), options.seq)
    if encoder.tokenizer_file is None:
        return text.random_sentences(encoder, 1, options.seq)
    return text.tokenize(encoder, [text.long_text()], options.seq)


def _macs(layer, tokens):
    """Multiply-accumulates of the layer's own matrix products for so many tokens."""
    linear = 4 * layer.hidden * layer.hidden + 2 * layer.hidden * layer.ffn
    return tokens * linear + 2 * tokens * tokens * layer.hidden


@contextlib.contextmanager
def run_folder(name):
    """The run's folder, for this process alone."""
    folder = BUILD / "sim" / name
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield folder


@dataclass(frozen=True)
class _Sequence:
    """One sentence on its way through the tiers: float input and output, integer input."""

    sentence: object
    reference: object
    x16: object
    pieces: list


def prepare(options, *, notify):
    """Everything before the simulation: quantised layer, program, and its sequences.

    Raises
    ------
    UserError, golden.models.ModelError, golden.text.TextError
        If an option, the model or the text can't be used.
    """
    config = _checked_config(options)
    notify(f"loading {options.model}")
    encoder = _checked_encoder(options)
    sentences = _sentences(encoder, options)
    notify(f"quantising layer {options.layer}, unless it has been kept")
    projections, output, intermediate, down = options.duplicates
    settings = Settings(
        duplicates=Duplicates(projections=projections, output=output, intermediate=intermediate, down=down)
    )
    layer = cached_layer(encoder, options.layer, settings, folder=BUILD / "quantized")
    notify("compiling the program")
    name = f"layer{options.layer}"
    try:
        program = compile_layer(layer, config, seq=options.seq, name=name, model=f"{options.model} {name}")
    except ValueError as error:
        raise UserError(str(error)) from None
    sequences = []
    for sentence in sentences:
        inputs, outputs = layer_reference(encoder, sentence, options.layer)
        x16 = integer_model.quantise_input(inputs, layer.input_scale)
        x8 = integer_model.quantise_operand(x16, layer.input_quantize)
        pieces = program.input_pieces(x16=x16, x8=x8, mask=sentence.mask)
        sequences.append(_Sequence(sentence, outputs, x16, pieces))
    return config, encoder, layer, program, sequences


def write_job(folder, options, config, program, sequences, *, predicted):
    """The job of these sequences, written into `folder`."""
    bandwidth = options.bandwidth or max(8, config.axi_data_bytes)
    job = Job(
        config=config.as_dict(),
        program_address=program.program_address,
        commands=len(program.commands),
        window=program.window,
        output=(program.output16.address, program.output16.nbytes(config.array_n)),
        sequences=len(sequences),
        latency=options.latency,
        bandwidth=bandwidth,
        timeout=_TIMEOUT_FACTOR * predicted + _SPARE_CYCLES,
    )
    job.write(folder, pieces=program.pieces, inputs=[sequence.pieces for sequence in sequences])
    return job


def run_layer(options, console):
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
    UserError, golden.models.ModelError, golden.text.TextError
        If an option, the model or the text can't be used.
    ToolError, SimulationError
        If building or simulating fails.
    """
    def notify(what):
        console.print(f"[dim]{what} ...[/dim]", highlight=False)

    config, encoder, layer, program, sequences = prepare(options, notify=notify)
    predicted = predict(program, Timing(memory=options.latency)).cycles
    simulation = build(config, waves=options.waves, notify=notify)
    with run_folder(options.run) as folder:
        job = write_job(folder, options, config, program, sequences, predicted=predicted)
        waves = folder / "waves.fst" if options.waves else None
        notify(f"simulating {len(sequences)} sequence(s) of {options.seq} tokens on {options.preset}")
        with SimulationProgress(
            console, folder / PROGRESS_FILE, sequences=len(sequences), cycles=predicted
        ) as progress:
            launch(simulation, "sim.program_bench", folder, expect=1, waves=waves, watch=progress.watch)
        outcomes = [read_outcome(folder, number) for number in range(len(sequences))]
        report = _report(options, config, encoder, layer, program, sequences, outcomes, job)
        print_report(report, console)
        file = folder / "report.json"
        write_report(report, file)
        console.print(f"report         {file}", highlight=False, soft_wrap=True)
        if waves:
            console.print(f"waves          {waves}", highlight=False, soft_wrap=True)
    return report


def _compare(layer, program, sequence, outcome, array_n):
    """The sequence's figures, its dequantised result, and where it first differs from the integer model."""
    expected = integer_model.run_layer(layer, sequence.x16, sequence.sentence.mask)["output16"]
    result = program.unpack_output(outcome.output.tobytes())
    difference = describe_difference(result, expected)
    if difference is None and outcome.stray_bytes:
        difference = f"{outcome.stray_bytes} bytes outside the results were changed"
    values = integer_model.dequantise(result, layer.output_scale)
    found = agreement(values, sequence.reference, sequence.sentence.mask)
    tokens = sequence.sentence.tokens
    macs = _macs(layer, tokens)
    figures = {
        "name": sequence.sentence.text[:60] or "random tokens",
        "tokens": tokens,
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


def _report(options, config, encoder, layer, program, sequences, outcomes, job):
    array_n = config.array_n
    compared = [
        _compare(layer, program, sequence, outcome, array_n)
        for sequence, outcome in zip(sequences, outcomes, strict=True)
    ]
    figures = [item for item, _ in compared]
    masks = [sequence.sentence.mask for sequence in sequences]
    whole = pooled([values for _, values in compared], [s.reference for s in sequences], masks)
    cycles, macs = sum(item["cycles"] for item in figures), sum(item["macs"] for item in figures)
    seconds = sum(outcome.seconds for outcome in outcomes)
    different = next((item["first_difference"] for item in figures if not item["bit_exact"]), None)
    return RunReport(
        preset=options.preset,
        array_n=array_n,
        model=options.model,
        trained=encoder.trained,
        layers=[options.layer],
        seq=options.seq,
        memory_latency=job.latency,
        memory_bandwidth=job.bandwidth,
        cycles=cycles,
        macs=macs,
        utilization=macs / (array_n**2 * cycles),
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
        ops=operations(program.commands, outcomes[0].trace),
    )
