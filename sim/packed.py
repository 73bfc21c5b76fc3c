"""What comes before the simulation of a whole model: sentences, packed into programs."""

from dataclasses import dataclass, replace

import numpy as np

from bertha.compiler.compile import compile_model
from bertha.compiler.packing import Packing, pack_sentences
from bertha.compiler.predict import Prediction, Timing, predict
from bertha.errors import UserError
from bertha.folders import BUILD
from bertha.golden import integer_model
from bertha.golden.model import QuantizedModel
from bertha.models import text
from bertha.models.embedding import embedding_sums, float_hidden_states
from bertha.models.encoder import Encoder, load_encoder
from bertha.models.text import Sentence
from bertha.quantize.cache import cached_model
from bertha.rtl.config import Config, preset
from bertha.sim.prepare import memory_bandwidth

__all__ = ["TEXTS", "PackedRun", "PreparedModel", "model_sentences", "plan_runs", "prepare_model"]

TEXTS = (
    "The old lighthouse keeper climbed the spiral stairs every evening, long after the lamp had become automatic "
    "and nobody was paying him to do it any more.",
    "Two thirds of the seats were empty, yet the orchestra played as if the whole town had come to listen.",
    "Could you please send me the corrected invoice before Friday noon?",
    "A dog slept in the shade of the parked fire engine.",
    "Prices rose by 2.5 % in March, less than expected.",
    "Which of these two roads leads to the harbour?",
    "The soup was much too salty.",
    "Snow, again!",
)
"""Sentences to run where the user gives none."""

MOST_PROGRAMS = 4
"""Packings for which each gets a program of its own, where the user doesn't say."""

_SHARE = 0.4  # of what is left, that a random sentence takes


@dataclass(frozen=True, kw_only=True)
class PackedRun:
    """One run of a program with several sentences.

    Attributes
    ----------
    program : compiler.program.Program
    packing : Packing
    x16 : int16 [S, hidden]
        The sentences' sums of embeddings, row by row.
    pieces : list of (int, bytes)
        What the host puts into memory for it.
    prediction : bertha.compiler.predict.Prediction
    """

    program: object
    packing: Packing
    x16: np.ndarray
    pieces: list
    prediction: Prediction

    @property
    def predicted(self) -> int:
        """Cycles."""
        return self.prediction.cycles

    @property
    def ranges(self) -> np.ndarray:
        """int [S, 2]: the keys that each row sees."""
        return self.packing.ranges


@dataclass(frozen=True, kw_only=True)
class PreparedModel:
    """A model that is ready to run.

    Attributes
    ----------
    config : Config
    encoder : Encoder
    model : QuantizedModel
    sentences : list of Sentence
        Without padding.
    embedded16 : list of int16 [s, hidden]
        What the host makes of each: the sums of its embeddings.
    references : list of float32 [s, hidden]
        PyTorch's output of the model for each sentence alone.
    packing : {"static", "data"}
    runs : list of PackedRun
    bandwidth : float
        Of the memory, in bytes a cycle.
    """

    config: Config
    encoder: Encoder
    model: QuantizedModel
    sentences: list
    embedded16: list
    references: list
    packing: str
    runs: list
    bandwidth: float


def prepare_model(options, texts=None, *, notify) -> PreparedModel:
    """Everything before the simulation: quantised model, packed sentences, programs.

    Parameters
    ----------
    options : ModelOptions
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
    if options.pairs:
        texts = [_pair(line) for line in texts]
    sentences = model_sentences(encoder, options.seq, texts)
    notify(f"quantising the model ({options.recipe}), unless it has been kept")
    model = cached_model(encoder, options.recipe, folder=BUILD / "quantized", notify=notify)
    embedded16 = [
        integer_model.quantise_input(embedding_sums(encoder, sentence), model.embedding_scale)
        for sentence in sentences
    ]
    references = [float_hidden_states(encoder, sentence)[-1] for sentence in sentences]
    bandwidth = memory_bandwidth(options, config)
    try:
        kind, runs = plan_runs(
            model,
            config,
            embedded16,
            tokens=options.seq,
            packing=options.packing,
            timing=Timing(memory=options.latency, bandwidth=bandwidth),
            name=options.model,
            notify=notify,
        )
    except ValueError as error:
        raise UserError(str(error)) from None
    return PreparedModel(
        config=config,
        encoder=encoder,
        model=model,
        sentences=sentences,
        embedded16=embedded16,
        references=references,
        packing=kind,
        runs=runs,
        bandwidth=bandwidth,
    )


def model_sentences(encoder, longest, texts=None) -> list[Sentence]:
    """The sentences of the texts, without padding and truncated to `longest` tokens.

    Without texts they are `TEXTS`, or random tokens for a model without a tokenizer.
    """
    if texts or encoder.tokenizer_file is not None:
        return [text.trim(sentence) for sentence in text.tokenize(encoder, list(texts or TEXTS), longest)]
    (whole,) = text.random_sentences(encoder, 1, longest)
    sentences, start = [], 0
    while start < longest:
        stop = start + int(np.ceil(_SHARE * (longest - start)))
        place = slice(start, stop)
        sentences.append(Sentence("", whole.ids[place], whole.mask[place]))
        start = stop
    return sentences


def _pair(line):
    parts = tuple(part.strip() for part in line.split("\t"))
    if len(parts) != 2 or not all(parts):
        raise UserError(f"a pair must be two sentences with one tab between them, not {line[:40]!r}")
    return parts


def plan_runs(
    model,
    config,
    embedded16,
    *,
    tokens,
    packing=None,
    timing=None,
    name="the model",
    notify=lambda what: None,
) -> tuple[str, list[PackedRun]]:
    """The kind of packing, and runs that hold every sentence once.

    Programs have as many rows as they need, `tokens` at most.

    Parameters
    ----------
    model : QuantizedModel
    config : Config
    embedded16 : list of int16 [s, hidden]
        Each sentence's sums of embeddings.
    tokens : int
    packing : {"static", "data"}, optional
        Whether each packing gets a program of its own; by default if there are no more than `MOST_PROGRAMS`.
    timing : Timing, optional
        Of the prediction.
    name : str
        What error messages call the model.
    notify : function of str, optional

    Raises
    ------
    ValueError
        If the model doesn't fit the accelerator.
    """
    packings = pack_sentences([len(rows) for rows in embedded16], tokens)
    used = [packing.tokens - packing.padding for packing in packings]
    kind = packing or ("static" if len(packings) <= MOST_PROGRAMS else "data")
    rows = used if kind == "static" else [max(used)] * len(used)
    runs, program = [], None
    for number, (filled, count) in enumerate(zip(packings, rows, strict=True)):
        filled = replace(filled, tokens=count)
        if kind == "static" or program is None:
            notify(f"compiling program {number + 1} of {len(packings)}" if kind == "static" else "compiling")
            ranges = filled.ranges if kind == "static" else None
            program = compile_model(model, config, tokens=count, ranges=ranges, name=name)
            prediction = predict(program, timing)
        x16 = filled.gather(embedded16, model.hidden)
        pieces = program.input_pieces(x16=x16, ranges=filled.ranges)
        runs.append(PackedRun(program=program, packing=filled, x16=x16, pieces=pieces, prediction=prediction))
    return kind, runs
