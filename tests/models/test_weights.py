"""Weights in all the files and under all the names that people have."""

import json
import pickle

import pytest
import torch
from safetensors.torch import save_file

from bertha.models.encoder import ModelError, load_model
from tests.models.checkpoints import tiny_model, write_config, write_model

LAST = "encoder.layer.1.output.LayerNorm.bias"


@pytest.fixture(scope="module")
def model():
    return tiny_model("bert")


@pytest.fixture
def folder(tmp_path, model):
    """A folder with a config.json, for a test to add the weights."""
    write_config(tmp_path, model)
    return tmp_path


@pytest.fixture
def refused(folder):
    """Load the folder, and return the one sentence that refuses it."""

    def load():
        with pytest.raises(ModelError) as refusal:
            load_model(folder)
        assert "\n" not in str(refusal.value)
        return str(refusal.value)

    return load


def check(encoder, model, dtype=torch.float32):
    state = model.state_dict()
    for name, tensor in encoder.bert.state_dict().items():
        assert tensor.dtype == torch.float32 and torch.equal(tensor, state[name].to(dtype).float()), name


def halves(state):
    names = sorted(state)
    return {name: state[name] for name in names[::2]}, {name: state[name] for name in names[1::2]}


def write_shards(folder, state, suffix, save):
    """Two shards and their index; returns the index's path."""
    places = {}
    for number, part in enumerate(halves(state), 1):
        shard = f"{suffix[0]}-{number:05}-of-00002.{suffix[1]}"
        save(part, folder / shard)
        places.update(dict.fromkeys(part, shard))
    index = folder / f"{suffix[0]}.{suffix[1]}.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": places}))
    return index


SAFETENSORS = ("model", "safetensors"), save_file
PICKLES = ("pytorch_model", "bin"), torch.save


@pytest.mark.parametrize(("suffix", "save"), [SAFETENSORS, PICKLES])
def test_shards(folder, model, suffix, save):
    write_shards(folder, dict(model.state_dict()), suffix, save)
    check(load_model(folder), model)


def test_shards_as_hugging_face_writes_them(tmp_path, model):
    model.save_pretrained(tmp_path, max_shard_size="8KB")
    assert not (tmp_path / "model.safetensors").exists()
    check(load_model(tmp_path), model)


@pytest.mark.parametrize("zipped", [True, False])
def test_pytorch_file(folder, model, zipped):
    torch.save(model.state_dict(), folder / "pytorch_model.bin", _use_new_zipfile_serialization=zipped)
    check(load_model(folder), model)


@pytest.mark.parametrize("save", ["safetensors", "bin"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_half_precision(folder, model, dtype, save):
    state = {name: tensor.to(dtype) for name, tensor in model.state_dict().items()}
    if save == "bin":
        torch.save(state, folder / "pytorch_model.bin")
    else:
        save_file(state, folder / "model.safetensors")
    check(load_model(folder), model, dtype)


@pytest.mark.parametrize(
    "prefix",
    ["bert.", "module.", "model.", "module.bert.", "0.auto_model.", "model.module.bert.", "m.0.bert."],
)
@pytest.mark.parametrize("old", [False, True])
def test_prefixes_and_old_names(folder, model, prefix, old):
    state = {f"{prefix}{name}": tensor for name, tensor in model.state_dict().items()}
    if old:
        state = {
            name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
                "LayerNorm.bias", "LayerNorm.beta"
            ): each
            for name, each in state.items()
        }
    save_file({**state, "module.cls.predictions.bias": torch.zeros(3)}, folder / "model.safetensors")
    check(load_model(folder), model)


@pytest.mark.parametrize(
    ("family", "prefix"),
    [("roberta", "module.roberta."), ("distilbert", "0.auto_model."), ("electra", "model.electra.")],
)
def test_prefixes_of_other_families(family, prefix, tmp_path):
    model = tiny_model(family)
    state = {f"{prefix}{name}": tensor for name, tensor in model.state_dict().items()}
    one = load_model(write_model(tmp_path / "wrapped", model, state))
    other = load_model(write_model(tmp_path / "plain", model))
    for name, tensor in other.bert.state_dict().items():
        assert torch.equal(one.bert.state_dict()[name], tensor)


def test_weights_are_copies(folder, model):
    write_model(folder, model)
    encoder = load_model(folder)
    (folder / "model.safetensors").write_bytes(b"")
    check(encoder, model)


def test_safetensors_come_first(folder, model):
    (folder / "pytorch_model.bin").write_bytes(b"damaged")
    write_model(folder, model)
    check(load_model(folder), model)


def test_digest_changes_with_a_shard(folder, model):
    state = dict(model.state_dict())
    write_shards(folder, state, *SAFETENSORS)
    first, again = load_model(folder).digest, load_model(folder).digest
    write_shards(folder, {**state, LAST: state[LAST] + 1}, *SAFETENSORS)
    assert first == again != load_model(folder).digest


def test_two_encoders_in_one_file(folder, model, refused):
    state = {
        f"{side}.{name}": tensor
        for side in ("query", "context")
        for name, tensor in model.state_dict().items()
    }
    save_file({name: tensor.clone() for name, tensor in state.items()}, folder / "model.safetensors")
    assert "must hold one encoder, but has those of 'context.' and 'query.'" in refused()


def test_no_encoder_in_the_file(folder, refused):
    save_file({"linear.weight": torch.zeros(2)}, folder / "model.safetensors")
    assert "embeddings.word_embeddings.weight is missing" in refused()


def test_no_weights(refused):
    assert "must hold a model.safetensors or a pytorch_model.bin" in refused()


@pytest.mark.parametrize("damage", ["cut", "garbage", "empty", "text"])
def test_damaged_pytorch_file(folder, model, refused, damage):
    path = folder / "pytorch_model.bin"
    torch.save(model.state_dict(), path)
    whole = path.read_bytes()
    path.write_bytes(
        {"cut": whole[: len(whole) // 2], "garbage": b"\xff" * 99, "empty": b"", "text": b"version 1\n"}[
            damage
        ]
    )
    assert "pytorch_model.bin must be a PyTorch weights file, but can't be read" in refused()


class Bomb:
    def __reduce__(self):
        return print, ("this pickle ran",)


@pytest.mark.parametrize("zipped", [True, False])
def test_pickle_with_code(folder, model, refused, capsys, zipped):
    state = {**model.state_dict(), "bomb": Bomb()}
    path = folder / "pytorch_model.bin"
    if zipped:
        torch.save(state, path)
    else:
        path.write_bytes(pickle.dumps({"bomb": Bomb()}, protocol=2))
    message = refused()
    assert "must hold nothing but weights, but asks for" in message and "print" in message
    assert "ran" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([torch.zeros(2)], "must hold weights by name, not a list"),
        ({}, "must hold weights by name, not a dict"),
        ({"epoch": 3}, "must hold weights by name, but has a int under 'epoch'"),
        ({1: torch.zeros(2)}, "must hold weights by name, but has a Tensor under 1"),
    ],
)
def test_pytorch_file_of_something_else(folder, refused, content, message):
    torch.save(content, folder / "pytorch_model.bin")
    assert message in refused()


@pytest.mark.parametrize(("suffix", "save"), [SAFETENSORS, PICKLES])
def test_missing_shard(folder, model, refused, suffix, save):
    write_shards(folder, dict(model.state_dict()), suffix, save)
    shard = f"{suffix[0]}-00002-of-00002.{suffix[1]}"
    (folder / shard).unlink()
    assert f"index.json names the shard {shard}, which is missing" in refused()


def test_damaged_shard(folder, model, refused):
    write_shards(folder, dict(model.state_dict()), *SAFETENSORS)
    (folder / "model-00001-of-00002.safetensors").write_bytes(b"no")
    assert "model-00001-of-00002.safetensors must be a safetensors file" in refused()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "must be JSON"),
        ("[]", "must be a JSON object, not a list"),
        ("{}", "must say in its weight_map which shard has which weight"),
        ('{"weight_map": {}}', "must say in its weight_map"),
        ('{"weight_map": {"a": "../model.safetensors"}}', "must name shards beside it, but has '../model"),
        ('{"weight_map": {"a": 1}}', "must name shards beside it, but has 1 for a"),
    ],
)
def test_bad_index(folder, refused, content, message):
    (folder / "model.safetensors.index.json").write_text(content)
    assert message in refused()


def test_index_with_a_weight_that_its_shard_has_not(folder, model, refused):
    index = write_shards(folder, dict(model.state_dict()), *SAFETENSORS)
    content = json.loads(index.read_text())
    content["weight_map"]["more"] = "model-00001-of-00002.safetensors"
    index.write_text(json.dumps(content))
    assert "says that model-00001-of-00002.safetensors has more, but it hasn't" in refused()


@pytest.mark.parametrize("kind", [torch.int8, torch.float8_e4m3fn])
def test_quantised_weights(folder, model, refused, kind):
    state = {**model.state_dict(), LAST: model.state_dict()[LAST].to(kind)}
    save_file(state, folder / "model.safetensors")
    assert f"in fp32, fp16 or bf16, but {LAST} is {str(kind).removeprefix('torch.')}" in refused()


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_weights_that_are_not_finite(folder, model, refused, value):
    state = {**model.state_dict(), LAST: model.state_dict()[LAST].clone().half()}
    state[LAST][3] = value
    save_file(state, folder / "model.safetensors")
    assert f"must hold finite weights, but {LAST} doesn't" in refused()
