"""A hash of everything that a result comes from, so that what is kept can't be stale."""

import dataclasses
import hashlib
import importlib.metadata
import json
from pathlib import Path

import numpy as np

from bertha import golden, models

__all__ = ["digest", "float_digest", "integer_digest"]

LIBRARIES = ("torch", "transformers", "numpy")

FLOAT_SOURCES = (
    Path(__file__).with_name("embedders.py"),
    *(Path(models.__file__).with_name(name) for name in ("embedding.py", "empty.py", "pooling.py")),
)
INTEGER_SOURCES = tuple(sorted(Path(golden.__file__).parent.glob("*.py")))
"""What embeddings are computed by."""


def digest(*parts) -> str:
    """SHA-256 (hexadecimal) of numbers, texts, arrays, and tuples, lists, dicts and dataclasses of them."""
    key = hashlib.sha256()
    _add(key, parts)
    return key.hexdigest()


def float_digest(encoder) -> str:
    """Of a float model: weights, configuration, pooling, and what runs it."""
    config = encoder.config.to_dict()
    config.pop("_name_or_path", None)
    return digest(
        "float",
        encoder.digest,
        json.dumps(config, sort_keys=True, default=str),
        encoder.pooling,
        *(() if encoder.hard_attention is None else (encoder.hard_attention,)),
        [importlib.metadata.version(name) for name in LIBRARIES],
        [source.read_bytes() for source in FLOAT_SOURCES],
    )


def integer_digest(encoder, model) -> str:
    """Of an integer model beside its float one, which has the embedding tables."""
    return digest(
        "integer", float_digest(encoder), model, [source.read_bytes() for source in INTEGER_SOURCES]
    )


def _add(key, value):
    """Everything with its type and size, so that no two parts can run into one another."""
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        value = {name: getattr(value, name) for name in names}
    if isinstance(value, dict):
        value = [part for item in value.items() for part in item]
    if isinstance(value, tuple | list):
        key.update(f"[{len(value)}]".encode())
        for part in value:
            _add(key, part)
        return
    if isinstance(value, np.ndarray):
        header, content = f"{value.dtype}{value.shape}", np.ascontiguousarray(value).tobytes()
    else:
        content = value if isinstance(value, bytes) else repr(value).encode()
        header = f"{type(value).__name__}{len(content)}"
    key.update(header.encode() + b":")
    key.update(content)
