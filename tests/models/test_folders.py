"""Models in sentence-transformers' folders and in Hugging Face's cache."""

import json
import os
import shutil
import subprocess
import sys

import huggingface_hub.constants
import pytest

from bertha.models.encoder import ModelError, load_model, synthetic_shape
from tests.models.checkpoints import tiny_model, write_model

COMMIT = "0123456789abcdef0123456789abcdef01234567"
TRANSFORMER = {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache, and a function that puts a tiny model there under a name."""
    home = tmp_path / "home" / "hub"
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(home))

    def put(name):
        repository = home / f"models--{name.replace('/', '--')}"
        snapshot = write_model(repository / "snapshots" / COMMIT, tiny_model("bert"))
        (repository / "refs").mkdir()
        (repository / "refs" / "main").write_text(COMMIT)
        blob = repository / "blobs" / "abc"
        blob.parent.mkdir()
        shutil.move(snapshot / "model.safetensors", blob)
        os.symlink(blob, snapshot / "model.safetensors")
        return snapshot

    return put


@pytest.mark.parametrize("name", ["somebody/tiny-bert", "tiny-bert-uncased"])
def test_hub_name_in_the_cache(cache, name):
    cache(name)
    encoder = load_model(name)
    assert (encoder.name, encoder.layers) == (name, 2)


def test_hub_name_of_a_sentence_transformer(cache):
    snapshot = cache("somebody/sentences")
    inner = snapshot / "0_Transformer"
    inner.mkdir()
    for name in ("config.json", "model.safetensors"):
        os.rename(snapshot / name, inner / name)
    assert load_model("somebody/sentences").layers == 2


def test_cache_folder_of_the_environment(cache, tmp_path):
    cache("somebody/tiny-bert")
    code = "from bertha.models.folders import cached_folder; print(cached_folder('somebody/tiny-bert'))"
    environment = {**os.environ, "HF_HOME": str(tmp_path / "home")}
    environment.pop("HF_HUB_CACHE", None)
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert run.stdout.strip().endswith(COMMIT)


@pytest.mark.parametrize("name", ["somebody/else", "a/b.c_d"])
def test_hub_name_that_is_not_cached(cache, tmp_path, name):
    with pytest.raises(
        ModelError, match=f"model '{name}' must be an existing folder or in Hugging"
    ) as refusal:
        load_model(name)
    assert str(tmp_path / "home") in str(refusal.value)


@pytest.mark.parametrize("name", ["nowhere", "no/where/here", "../up", "a--b", "/a/b"])
def test_what_is_no_hub_name(cache, name):
    with pytest.raises(ModelError, match="must be"):
        load_model(name)


def test_half_a_snapshot(cache):
    snapshot = cache("somebody/tiny-bert")
    (snapshot / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="must hold a model.safetensors"):
        load_model("somebody/tiny-bert")


@pytest.mark.parametrize("listed", [True, False])
def test_transformer_in_a_folder_of_its_own(tmp_path, listed):
    write_model(tmp_path / "0_Transformer", tiny_model("bert"))
    (tmp_path / "0_Transformer" / "vocab.txt").touch()
    if listed:
        module = {**TRANSFORMER, "path": "0_Transformer"}
        (tmp_path / "modules.json").write_text(json.dumps([module]))
    encoder = load_model(tmp_path)
    assert encoder.layers == 2
    assert encoder.tokenizer_file == tmp_path / "0_Transformer" / "vocab.txt"
    (tmp_path / "0_Transformer" / "vocab.txt").rename(tmp_path / "vocab.txt")
    assert load_model(tmp_path).tokenizer_file == tmp_path / "vocab.txt"


def test_sentence_transformers_own_settings(tmp_path):
    write_model(tmp_path, tiny_model("bert"))
    assert (load_model(tmp_path).max_seq_length, load_model(tmp_path).lowercase) == (None, False)
    path = tmp_path / "sentence_bert_config.json"
    path.write_text('{"max_seq_length": 12, "do_lower_case": true}')
    assert (load_model(tmp_path).max_seq_length, load_model(tmp_path).lowercase) == (12, True)
    path.write_text('{"max_seq_length": 0}')
    with pytest.raises(ModelError, match="max_seq_length must be a positive integer, not 0"):
        load_model(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[", "modules.json must be JSON"),
        ("{}", "must begin with a Transformer module, but has nothing"),
        ('[{"path": ""}]', "must list modules with a type and a path"),
        ("[3]", "must list modules with a type and a path"),
        ('{"a": 1}', "must list modules with a type and a path"),
        ('[{"path": "", "type": "st.WordEmbeddings"}]', "Transformer module, but has WordEmbeddings"),
        ('[{"path": "gone", "type": "st.Transformer"}]', "gone' must hold a config.json"),
    ],
)
def test_bad_modules(tmp_path, content, message):
    write_model(tmp_path, tiny_model("bert"))
    (tmp_path / "modules.json").write_text(content)
    with pytest.raises(ModelError, match=message):
        load_model(tmp_path)


def test_adapter(tmp_path):
    write_model(tmp_path, tiny_model("bert"))
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(ModelError, match="must hold whole weights, not an adapter's"):
        load_model(tmp_path)


def test_names_of_synthetic_models():
    base = {"hidden": 768, "heads": 12, "ffn": 3072}
    assert synthetic_shape("synthetic-base") == {**base, "layers": 1}
    assert synthetic_shape("synthetic-base-12") == {**base, "layers": 12}
    assert synthetic_shape("synthetic-large-3") == {"hidden": 1024, "heads": 16, "ffn": 4096, "layers": 3}
    assert synthetic_shape("synthetic-tiny-3") is synthetic_shape("minilm") is None
    for name in ("synthetic-base-0", "reduced-100"):
        with pytest.raises(ModelError, match="layers of .* must be from 1 to 99"):
            synthetic_shape(name)
    assert load_model("reduced-3").layers == 3
