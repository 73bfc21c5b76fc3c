"""What comes before a simulation: from a model's name and a text to a program and its sequences."""

import contextlib
import fcntl
import re
from dataclasses import dataclass
from pathlib import Path

from bertha.compiler.compile import compile_layer
from bertha.errors import UserError
from bertha.folders import BUILD
from bertha.golden import integer_model
from bertha.golden.floating import layer_reference
from bertha.models import text
from bertha.models.encoder import load_model
from bertha.quantize.cache import cached_layer
from bertha.quantize.quantizer import Duplicates, Settings
from bertha.rtl.config import preset
from bertha.sim.job import Job

__all__ = ["LayerOptions", "Prepared", "Sequence", "prepare", "run_folder", "write_job"]

_TIMEOUT_FACTOR = 4  # a run may take so many times the predicted cycles
_SPARE_CYCLES = 1_000_000


@dataclass(frozen=True, kw_only=True)
class LayerOptions:
    """What to run.

    Attributes
    ----------
    model : str
        Name or folder, see `bertha.models.encoder.load_model`.
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
        raise UserError(
            f"layer must be from 0 to {encoder.layers - 1} in {options.model}, not {options.layer}"
        )
    return encoder


def _sentences(encoder, options):
    if options.text:
        return text.tokenize(encoder, text.read_sentences(options.text), options.seq)
    if encoder.tokenizer_file is None:
        return text.random_sentences(encoder, 1, options.seq)
    return text.tokenize(encoder, [text.long_text()], options.seq)


@contextlib.contextmanager
def run_folder(name):
    """The run's folder, for this process alone."""
    folder = BUILD / "sim" / name
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
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
    pieces : list of (int, bytes)
        What the host puts into memory for it.
    """

    sentence: object
    reference: object
    x16: object
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
    """

    config: object
    encoder: object
    layer: object
    program: object
    sequences: list


def prepare(options, *, notify):
    """Everything before the simulation: quantised layer, program, and its sequences.

    Raises
    ------
    UserError, models.encoder.ModelError, models.text.TextError
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
        sequences.append(Sequence(sentence, outputs, x16, pieces))
    return Prepared(config, encoder, layer, program, sequences)


def write_job(folder, options, prepared, *, sequences, predicted):
    """The job of these sequences, written into `folder`; `predicted` are the cycles of one."""
    config, program = prepared.config, prepared.program
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
