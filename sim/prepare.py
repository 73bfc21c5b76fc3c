"""What comes before a simulation: from a model's name and a text to a program and its sequences."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bertha.compiler.compile import compile_layer
from bertha.compiler.predict import Timing, predict
from bertha.errors import UserError
from bertha.folders import BUILD
from bertha.golden import integer_model
from bertha.golden.floating import layer_reference
from bertha.locks import locked
from bertha.models import text
from bertha.models.encoder import load_model
from bertha.quantize.cache import cached_layer
from bertha.quantize.quantizer import Duplicates, Settings
from bertha.rtl.config import preset
from bertha.sim.job import Job
from bertha.sim.options import LayerOptions, check_options

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

_FILES = (
    "*.npz",
    "*.xml",
    "image.bin",
    "job.json",
    "outcome*.json",
    "progress*",
    "report.json*",
    "simulation.log",
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
    return text.read_sentences(options.text) if options.text else None


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
    pieces : list of (int, bytes)
        What the host puts into memory for it.
    """

    sentence: object
    reference: object
    x16: object
    ranges: object
    pieces: list


@dataclass(frozen=True)
class Prepared:
    """A layer that is ready to run.

    Attributes
    ----------
    config : Config
    encoder : models.encoder.Encoder
    layer : golden.layer.QuantizedLayer
    program : compiler.program.Program
    sequences : list of Sequence
    bandwidth : float
        Of the memory, in bytes a cycle.
    predicted : int
        Cycles of one sequence.
    """

    config: object
    encoder: object
    layer: object
    program: object
    sequences: list
    bandwidth: float
    predicted: int


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
    encoder = load_model(options.model)
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
    sequences = []
    for sentence in sentences:
        inputs, outputs = layer_reference(encoder, sentence, options.layer)
        x16 = integer_model.quantise_input(inputs, layer.input_scale)
        x8 = integer_model.quantise_operand(x16, layer.input_quantize)
        ranges = padded_ranges(sentence.mask)
        pieces = program.input_pieces(x16=x16, x8=x8, ranges=ranges)
        sequences.append(Sequence(sentence, outputs, x16, ranges, pieces))
    bandwidth = options.bandwidth or max(8, config.axi_data_bytes)
    predicted = predict(program, Timing(memory=options.latency, bandwidth=bandwidth)).cycles
    return Prepared(config, encoder, layer, program, sequences, bandwidth, predicted)


def write_job(folder, options, prepared, *, sequences) -> Job:
    """The job of these sequences, written into `folder`, which is made if need be."""
    config, program = prepared.config, prepared.program
    folder.mkdir(parents=True, exist_ok=True)
    job = Job(
        config=config.as_dict(),
        program_address=program.program_address,
        commands=len(program.commands),
        window=program.window,
        output=(program.output16.address, program.output16.nbytes(config.array_n)),
        scratch=program.scratch,
        sequences=len(sequences),
        latency=options.latency,
        bandwidth=prepared.bandwidth,
        timeout=_TIMEOUT_FACTOR * prepared.predicted + _SPARE_CYCLES,
    )
    job.write(folder, pieces=program.pieces, inputs=[sequence.pieces for sequence in sequences])
    return job
