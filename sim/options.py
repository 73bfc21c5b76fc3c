"""What a user chooses of a run, its rules, and the name of the run's folder."""

import hashlib
import math
import re
from dataclasses import dataclass
from pathlib import Path

from bertha.errors import UserError
from bertha.models.encoder import synthetic_shape
from bertha.models.hard_attention import check_hard_attention
from bertha.quantize.recipes import DEFAULT_RECIPE, RECIPES
from bertha.rtl.config import preset

__all__ = [
    "PACKINGS",
    "LayerOptions",
    "ModelOptions",
    "RunOptions",
    "check_memory",
    "check_options",
    "is_stdin",
    "run_name",
]

PACKINGS = ("static", "data")
MOST_LATENCY = 100_000
BANDWIDTHS = (0.01, 1024)  # the widest bus moves 128 bytes a cycle
_NAME_LENGTH = 40  # of a model or a text in a folder's name


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What every run has.

    Attributes
    ----------
    model : str
        Name or folder, see `bertha.models.encoder.load_model`.
    seq : int
        Tokens (S) of a program, to which longer sentences are truncated. Of a layer: each sentence is padded to
        them. Of a model: sentences are packed into as many, at most.
    preset : str
    text : Path or None
        File with a sentence a line, `-` for the standard input.
    latency : int
        Of the memory, in cycles, from 1 to 100,000.
    bandwidth : float or None
        Of the memory in bytes a cycle, from 0.01 to 1024; by default 8, or the width of the bus if that is
        more.
    waves : bool
        Whether to write waves (FST).
    hard_attention : str or None
        Keys that tokens attend to, see `bertha.models.hard_attention.parse_hard_attention`; by default all.
    renormalised : bool
    """

    model: str = "minilm"
    seq: int = 128
    preset: str = "edge16"
    text: Path | None = None
    latency: int = 100
    bandwidth: float | None = None
    waves: bool = False
    hard_attention: str | None = None
    renormalised: bool = True


@dataclass(frozen=True, kw_only=True)
class LayerOptions(RunOptions):
    """What to run of a single layer.

    Without a text, it runs a film review (of 244 tokens, padded or truncated as any text), or random tokens for
    a model without a tokenizer.

    Attributes
    ----------
    layer : int
    duplicates : tuple of int
        Duplicated channels (outlier channel splitting) of the projections, the output projection,
        the intermediate and the down layer.
    """

    layer: int = 0
    duplicates: tuple = (0, 0, 0, 0)


@dataclass(frozen=True, kw_only=True)
class ModelOptions(RunOptions):
    """What to run of a whole model.

    Without a text, it runs a few sentences of its own, or random tokens for a model without a tokenizer.

    Attributes
    ----------
    recipe : str
        One of `RECIPES`, see `bertha.quantize`.
    packing : str or None
        "static": a program for every packing, which leaves out of attention what no sentence needs. "data": one
        program for all packings. By default static, unless there are more packings than a few.
    pairs : bool
        Whether each line of the text is a pair of sentences with a tab between them.
    """

    recipe: str = DEFAULT_RECIPE
    packing: str | None = None
    pairs: bool = False


def is_stdin(text) -> bool:
    """Whether a text is to be read from the standard input."""
    return str(text) == "-"


def check_options(options) -> None:
    """Checks everything that can be seen without the model.

    Raises
    ------
    UserError
        If an option breaks its rule.
    """
    preset(options.preset)
    if not str(options.model):
        raise UserError(f"model must be a name or a folder, not {options.model!r}")
    _check_integer("seq", options.seq)
    if options.seq < 1:
        raise UserError(f"seq must be at least 1 token, not {options.seq}")
    check_hard_attention(options.hard_attention, tokens=options.seq, renormalised=options.renormalised)
    if isinstance(options, LayerOptions):
        _check_layer_options(options)
    else:
        _check_choice("recipe", options.recipe, RECIPES)
        _check_choice("packing", options.packing, (*PACKINGS, None))
        if options.pairs and not options.text:
            raise UserError("pairs need a text, a pair a line")
    check_memory(options.latency, options.bandwidth)


def _check_layer_options(options):
    _check_integer("layer", options.layer)
    if len(options.duplicates) != 4 or min(options.duplicates) < 0:
        raise UserError(
            "duplicates must be four numbers from 0 such as 0,0,4,4, not "
            + ",".join(str(count) for count in options.duplicates)
        )


def _check_choice(name, value, choices):
    if value not in choices:
        known = ", ".join(choice for choice in choices if choice)
        raise UserError(f"{name} must be one of {known}, not {value!r}")


def check_memory(latency, bandwidth) -> None:
    """Checks latency and bandwidth (None: the default) of a memory.

    Raises
    ------
    UserError
        If one breaks its rule.
    """
    _check_integer("latency", latency)
    if not 1 <= latency <= MOST_LATENCY:
        raise UserError(f"latency must be from 1 to {MOST_LATENCY} cycles, not {latency}")
    low, high = BANDWIDTHS
    if bandwidth is not None and (math.isnan(bandwidth) or not low <= bandwidth <= high):
        raise UserError(f"bandwidth must be from {low} to {high} bytes a cycle, not {bandwidth:g}")


def run_name(options, texts=None) -> str:
    """The name of the run's folder below build/sim: whatever changes the run or its files changes the name.

    Parameters
    ----------
    options : LayerOptions or ModelOptions
    texts : list of str, optional
        The sentences of `options.text`.
    """
    single = isinstance(options, LayerOptions)
    parts = [_model_name(options.model), f"layer{options.layer}" if single else "", f"s{options.seq}"]
    parts.append(options.preset)
    if single and any(options.duplicates):
        parts.append("d" + ".".join(str(count) for count in options.duplicates))
    if not single:
        parts.append(options.recipe if options.recipe != ModelOptions.recipe else "")
        parts.append(options.packing or "")
        parts.append("pairs" if options.pairs else "")
    if options.latency != RunOptions.latency:
        parts.append(f"latency{options.latency}")
    if options.bandwidth is not None:
        parts.append(f"bandwidth{options.bandwidth!r}")
    if options.text:
        name = "stdin" if is_stdin(options.text) else _plain(Path(options.text).name)
        parts.append(f"{name}-{_digest(*texts)}")
    if options.hard_attention is not None:
        parts.append(f"hard{_plain(options.hard_attention)}" + ("" if options.renormalised else "-whole"))
    if options.waves:
        parts.append("waves")
    return "-".join(part for part in parts if part)


def _model_name(model):
    if model == "minilm" or synthetic_shape(model):
        return model
    folder = Path(model).resolve()
    return f"{_plain(folder.name)}-{_digest(str(folder))}"


def _plain(name):
    return re.sub(r"[^A-Za-z0-9_.]+", "_", name)[:_NAME_LENGTH].strip("_")


def _digest(*parts):
    content = "\0".join(parts).encode(errors="surrogateescape")
    return hashlib.sha256(content).hexdigest()[:8]


def _check_integer(name, value):
    if not isinstance(value, int) or isinstance(value, bool):
        raise UserError(f"{name} must be an integer, not {value!r}")
