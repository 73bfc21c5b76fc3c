"""Which layer, and which kind of operation, a command belongs to."""

import re

from bertha.rtl.isa import Engine

__all__ = ["EMBEDDING", "KINDS", "general_name", "kind_of", "layer_of"]

EMBEDDING = "embedding"

_WEIGHTS, _OTHER_DMA = "weights (DMA)", "other DMA"

_KIND_OF = {
    "input_quantize": EMBEDDING,
    "query": "projections",
    "key": "projections",
    "value": "projections",
    "scores": "scores",
    "ranges": "scores",
    "softmax": "softmax",
    "context": "P·V",
    "output": "output",
    "intermediate": "FFN1",
    "gelu": "FFN1",
    "down": "FFN2",
    "attention_norm": "LayerNorm",
    "output_norm": "LayerNorm",
}

KINDS = (*dict.fromkeys(_KIND_OF.values()), _WEIGHTS, _OTHER_DMA)
"""Kinds of operations, in the order in which they are shown."""


def kind_of(command) -> str:
    """The kind of a command's operation, one of `KINDS`."""
    operation = _operation(command.name)
    if command.engine in (Engine.LOAD, Engine.STORE):
        return _WEIGHTS if operation == "weights" else _OTHER_DMA
    return EMBEDDING if operation.startswith(EMBEDDING) else _KIND_OF[operation]


def general_name(name) -> str:
    """An operation's name without its layer and the number of its head or panel."""
    return ".".join(part for part in name.split(".") if not re.fullmatch(r"(layer|head|panel)\d+", part))


def layer_of(name) -> int | None:
    """The layer of an operation's name; None for what comes before layer 0."""
    number = int(re.match(r"layer(\d+)\.", name)[1])
    before = _operation(name).startswith(EMBEDDING) or _operation(name) == "input_quantize"
    return None if before else number


def _operation(name):
    return name.split(".")[1]
