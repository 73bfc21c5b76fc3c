"""Which layers attend to few keys, as a user says it."""

import re
from dataclasses import dataclass

from bertha.errors import UserError

__all__ = ["HardAttention", "check_hard_attention", "parse_hard_attention"]


@dataclass(frozen=True)
class HardAttention:
    """Hard attention of a model's layers.

    Attributes
    ----------
    keys : tuple of int
        By layer: so many keys that a row attends to; 0: all.
    renormalised : bool
        Whether the probabilities of the kept keys add up to 1, or stay what they are among all.
    """

    keys: tuple[int, ...]
    renormalised: bool = True


def parse_hard_attention(text, *, layers, tokens, renormalised=True) -> HardAttention:
    """Hard attention from a text such as `30`, for all layers, or `0-2:30,5:7`, for some.

    Parameters
    ----------
    layers : int
        Of the model.
    tokens : int
        Of a run, the most keys there can be.
    renormalised : bool

    Raises
    ------
    UserError
        If it says something else, names a layer that isn't there or one twice, or a number of keys is out of range.
    """
    keys = [0] * layers
    for part, first, last, count in _parts(text, tokens):
        first, last = (0, layers - 1) if first is None else (first, last)
        if not first <= last < layers:
            raise UserError(f"layers of --hard-attention must be from 0 to {layers - 1}, not {part!r}")
        if any(keys[first : last + 1]):
            raise UserError(f"--hard-attention must name a layer once, not twice as in {text!r}")
        keys[first : last + 1] = [count] * (last + 1 - first)
    return HardAttention(tuple(keys), renormalised)


def check_hard_attention(text, *, tokens, renormalised=True) -> None:
    """As `parse_hard_attention`, what can be seen without the model; `text` may be None.

    Raises
    ------
    UserError
        Also if `renormalised` is false without hard attention.
    """
    if text is not None:
        list(_parts(text, tokens))
    elif not renormalised:
        raise UserError("--no-renormalise must go with --hard-attention, not without it")


def _parts(text, tokens):
    """Parts of the text, each with its first and last layer (None: all) and its number of keys."""
    for part in text.split(","):
        match = re.fullmatch(r"(?:([0-9]+)(?:-([0-9]+))?:)?([0-9]+)", part.strip(), re.ASCII)
        if not match:
            raise UserError(
                f"--hard-attention must be a number of keys, or layers and keys such as 0-2:30,5:7, not {text!r}"
            )
        first, last, count = (None if number is None else int(number) for number in match.groups())
        if not 1 <= count <= tokens:
            raise UserError(
                f"keys of hard attention must be from 1 to the {tokens} tokens of a run, not {count}"
            )
        yield part.strip(), first, first if last is None else last, count
