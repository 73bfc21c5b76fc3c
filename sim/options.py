"""What a user chooses of a run, its rules, and the name of the run's folder."""

import hashlib
import math
import re
from dataclasses import dataclass
from pathlib import Path

from bertha.errors import UserError
from bertha.models.encoder import SYNTHETIC_SHAPES
from bertha.rtl.config import preset

__all__ = ["LayerOptions", "check_memory", "check_options", "run_name"]

MOST_LATENCY = 100_000
BANDWIDTHS = (0.01, 1024)  # the widest bus moves 128 bytes a cycle
_NAME_LENGTH = 40  # of a model or a text in a folder's name


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
        File with a sentence a line; without it a film review (of 244 tokens, padded or truncated as any
        text), or random tokens for a model without a tokenizer.
    latency : int
        Of the memory, in cycles, from 1 to 100,000.
    bandwidth : float or None
        Of the memory in bytes a cycle, from 0.01 to 1024; by default 8, or the width of the bus if that is
        more.
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
    _check_integer("layer", options.layer)
    _check_integer("seq", options.seq)
    if options.seq < 1:
        raise UserError(f"seq must be at least 1 token, not {options.seq}")
    if len(options.duplicates) != 4 or min(options.duplicates) < 0:
        raise UserError(
            "duplicates must be four numbers from 0 such as 0,0,4,4, not "
            + ",".join(str(count) for count in options.duplicates)
        )
    check_memory(options.latency, options.bandwidth)


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
    options : LayerOptions
    texts : list of str, optional
        The sentences of `options.text`.
    """
    parts = [_model_name(options.model), f"layer{options.layer}", f"s{options.seq}", options.preset]
    defaults = LayerOptions()
    if any(options.duplicates):
        parts.append("d" + ".".join(str(count) for count in options.duplicates))
    if options.latency != defaults.latency:
        parts.append(f"latency{options.latency}")
    if options.bandwidth is not None:
        parts.append(f"bandwidth{options.bandwidth!r}")
    if options.text:
        parts.append(f"{_plain(Path(options.text).name)}-{_digest(*texts)}")
    if options.waves:
        parts.append("waves")
    return "-".join(parts)


def _model_name(model):
    if model == "minilm" or model in SYNTHETIC_SHAPES:
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
