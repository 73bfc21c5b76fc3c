"""What comes before the simulation of a layer, from a model's name and a text on, and of anything."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bertha.compiler.compile import compile_layer
from bertha.compiler.predict import Timing, default_timing, predict
from bertha.compiler.program import Program
from bertha.errors import UserError
from bertha.folders import BUILD
from bertha.golden import integer_model
from bertha.golden.floating import layer_reference
from bertha.locks import locked
from bertha.models import text
from bertha.models.encoder import load_encoder
from bertha.quantize.cache import cached_layer
from bertha.quantize.quantizer import Duplicates, Settings
from bertha.rtl.config import preset
from bertha.sim.job import Job, JobProgram
from bertha.sim.options import LayerOptions, check_options, is_stdin

__all__ = [
    "LayerOptions",
    "Prepared",
    "Sequence",
    "padded_ranges",
    "prepare",
    "read_texts",
    "run_folder",
    "write_job",
]

_TIMEOUT_FACTOR = 4  # a run may take so many times the predicted cycles
_SPARE_CYCLES = 1_000_000

STDIN = "/dev/stdin"

_FILES = (
    "*.npz",
    "*.xml",
    "image*.bin",
    "job.json",
    "outcome*.json",
    "progress*",
    "report.html*",
    "report.json*",
    "simulation.log",
    "timeline.json*",
    "waves.fst",
)
"""What runs write into their folders."""


def read_texts(options) -> list[str] | None:
    """Checks the options and reads the text: its sentences, None if there is no text.

    Raises
    ------
    UserError, models.text.TextError
        If an option or the text can't be used.
    """
    check_options(options)
    if not options.text:
        return None
    return text.read_sentences(STDIN if is_stdin(options.text) else options.text)


def _sentences(encoder, options, texts):
    if texts:
        return text.tokenize(encoder, texts, options.seq)
    if encoder.tokenizer_file is None:
        return text.random_sentences(encoder, 1, options.seq)
    return text.tokenize(encoder, [text.long_text()], options.seq)


def padded_ranges(mask) -> np.ndarray:
    """Row ranges of one sentence whose real tokens are true in `mask`, from the first on: int [S, 2]."""
    tokens = int(mask.sum())
    return np.where(mask[:, None], (0, tokens), (0, 0))


@contextlib.contextmanager
def run_folder(name) -> Iterator[Path]:
    """The run's folder (it may not exist yet), for this process alone, without what an earlier run left there."""
    folder = BUILD / "sim" / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.parent / f".{name}.lock", "makes the same run"):
        for pattern in _FILES:
            for file in folder.glob(pattern):
                file.unlink()
        yield folder


@dataclass(frozen=True)
class Sequence:
    """One sentence on its way through the tiers.

    Attributes
    ----------
    sentence : models.text.Sentence
    reference : float32 [S, hidden]
        PyTorch's output of the layer.
    x16 : int16 [S, hidden]
        Input of the integer layer.
    ranges : int [S, 2]
        Keys that each row sees.
    program : compiler.program.Program
    pieces : list of (int, bytes)
        What the host puts into memory for it.
    prediction : bertha.compiler.predict.Prediction
    """

    sentence: object
    reference: object
    x16: object
    ranges: object
    program: object
    pieces: list
    prediction: object

    @property
    def predicted(self) -> int:
        """Cycles."""
        return self.prediction.cycles


@dataclass(frozen=True)
class Prepared:
    """A layer that is ready to run.

    Attributes
    ----------
    config : Config
    encoder : models.encoder.Encoder
    layer : golden.layer.QuantizedLayer
    runs : list of Sequence
        All of one program.
    bandwidth : float
        Of the memory, in bytes a cycle.
    """

    config: object
    encoder: object
    layer: object
    runs: list
    bandwidth: float

    @property
    def program(self) -> Program:
        """The layer's program."""
        return self.runs[0].program


def prepare(options, texts=None, *, notify) -> Prepared:
    """Everything before the simulation: quantised layer, program, and its sequences.

    Parameters
    ----------
    options : LayerOptions
    texts : list of str, optional
        What `read_texts` returned.
    notify : function of str
        Called with what is being done.

    Raises
    ------
    UserError, models.encoder.ModelError, models.text.TextError
        If an option, the model or the text can't be used.
    """
    config = preset(options.preset)
    notify(f"loading {options.model}")
    encoder = load_encoder(options.model, options.hard_attention, options.seq, options.renormalised)
    encoder.check_layer(options.layer)
    sentences = _sentences(encoder, options, texts)
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
    bandwidth = memory_bandwidth(options, config)
    prediction = predict(program, Timing(memory=options.latency, bandwidth=bandwidth))
    runs = []
    for sentence in sentences:
        inputs, outputs = layer_reference(encoder, sentence, options.layer)
        x16 = integer_model.quantise_input(inputs, layer.input_scale)
        x8 = integer_model.quantise_operand(x16, layer.input_quantize)
        ranges = padded_ranges(sentence.mask)
        pieces = program.input_pieces(x16=x16, x8=x8, ranges=ranges)
        runs.append(Sequence(sentence, outputs, x16, ranges, program, pieces, prediction))
    return Prepared(config, encoder, layer, runs, bandwidth)


def memory_bandwidth(options, config) -> float:
    """Of the memory in bytes a cycle: what the user said, or 8, or the width of the bus if that is more."""
    return options.bandwidth or default_timing(config).bandwidth


def write_job(folder, options, prepared, runs=None) -> Job:
    """The job of the runs (by default all that are prepared), written into `folder`, which is made if need be."""
    runs = prepared.runs if runs is None else runs
    folder.mkdir(parents=True, exist_ok=True)
    programs, timeouts = [], []
    for run in runs:
        if not any(run.program is program for program in programs):
            programs.append(run.program)
            timeouts.append(_TIMEOUT_FACTOR * run.predicted + _SPARE_CYCLES)
    job = Job(
        config=prepared.config.as_dict(),
        programs=[JobProgram.of(program, timeout=time) for program, time in zip(programs, timeouts)],
        runs=[next(n for n, program in enumerate(programs) if program is run.program) for run in runs],
        latency=options.latency,
        bandwidth=prepared.bandwidth,
    )
    job.write(folder, pieces=[program.pieces for program in programs], inputs=[run.pieces for run in runs])
    return job
