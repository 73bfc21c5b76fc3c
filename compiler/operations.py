"""Which layer, and which kind of operation, a command belongs to."""

import re

from bertha.rtl.isa import Engine

__all__ = [
    "EMBEDDING",
    "KINDS",
    "PURPOSES",
    "general_name",
    "is_of_layer",
    "kind_of",
    "layer_of",
    "operation_of",
    "purpose_of",
]

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
    "intermediate": "FFN1 + GELU",
    "gelu": "FFN1 + GELU",
    "down": "FFN2",
    "attention_norm": "LayerNorm",
    "output_norm": "LayerNorm",
}

KINDS = (*dict.fromkeys(_KIND_OF.values()), _WEIGHTS, _OTHER_DMA)
"""Kinds of operations, in the order in which they are shown."""


_STREAM, _RESULT, _CONSTANTS = "residual", "result", "constants"

_DATA_FOR = {
    "zeros": EMBEDDING,
    "x8": "projections",
    "hidden": "FFN1 + GELU",
    "x16": _STREAM,
    _STREAM: _STREAM,
    _RESULT: _RESULT,
    "pass": _CONSTANTS,  # of passes apart from the drain (bertha.compiler.ablations)
}
"""What data that isn't called by an operation's name is for."""

PURPOSES = (*dict.fromkeys(_KIND_OF.values()), _STREAM, _RESULT, _CONSTANTS)
"""Kinds of operations, with the DMA that brings their weights and operands and takes their results."""


def kind_of(command) -> str:
    """The kind of a command's operation, one of `KINDS`."""
    operation = _operation(command.name)
    if command.engine in (Engine.LOAD, Engine.STORE):
        return _WEIGHTS if operation == "weights" else _OTHER_DMA
    return EMBEDDING if operation.startswith(EMBEDDING) else _KIND_OF[operation]


def general_name(name) -> str:
    """An operation's name without its layer and the number of its head or panel."""
    return ".".join(part for part in name.split(".") if not re.fullmatch(r"(layer|head|panel)\d+", part))


def is_of_layer(command) -> bool:
    """Whether a command is part of a layer's work, and no barrier or wait for units that nobody needs."""
    return command.name.startswith("layer")


def layer_of(name) -> int | None:
    """The layer of an operation's name; None for what comes before layer 0."""
    number = int(re.match(r"layer(\d+)\.", name)[1])
    before = _operation(name).startswith(EMBEDDING) or _operation(name) == "input_quantize"
    return None if before else number


def _operation(name):
    return name.split(".")[1]


def operation_of(command) -> str:
    """The operation that a command is part of or moves data for: all heads and panels of a layer's are one."""
    parts = command.name.split(".")
    if parts[1] == "weights":
        return parts[2]
    if command.engine == Engine.STORE and parts[1] == "output" and parts[2].startswith("panel"):
        return _RESULT
    if command.engine == Engine.LOAD and parts[1] == "context" and parts[2].startswith("panel"):
        return "output"
    return EMBEDDING if parts[1].startswith((EMBEDDING, "input_quantize")) else parts[1]


def purpose_of(operation) -> str:
    """The one of `PURPOSES` that an operation (`operation_of`) is of."""
    if operation == EMBEDDING:
        return EMBEDDING
    return _KIND_OF.get(operation) or _DATA_FOR[operation]
