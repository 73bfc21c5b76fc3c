import json

import pytest
import torch
from safetensors.torch import save_file
from transformers import BertModel

from bertha.models.encoder import ModelError, load_model, synthetic_bert

SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


@pytest.fixture
def folder(tmp_path, reduced):
    """A good model folder, for a test to spoil."""
    config = {**reduced.config.to_dict(), "model_type": "bert"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    save_file(dict(reduced.bert.state_dict()), tmp_path / "model.safetensors")
    return tmp_path


def spoil(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_minilm_is_the_published_one(minilm):
    assert minilm.digest == SHA256
    assert isinstance(minilm.bert, BertModel)
    assert (minilm.layers, minilm.config.hidden_size, minilm.trained) == (6, 384, True)
    assert minilm.config._attn_implementation == "eager"


def test_folder_gives_the_same_weights(folder, reduced):
    loaded = load_model(folder)
    for key, tensor in reduced.bert.state_dict().items():
        assert torch.equal(loaded.bert.state_dict()[key], tensor)


def test_prefix_and_old_layernorm_names_are_read(folder, reduced):
    state = {
        "bert."
        + key.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): value
        for key, value in reduced.bert.state_dict().items()
    }
    save_file(state, folder / "model.safetensors")
    assert load_model(folder).layers == reduced.layers


def test_missing_folder():
    with pytest.raises(ModelError, match="existing folder, not 'nowhere'"):
        load_model("nowhere")


def test_missing_config(folder):
    (folder / "config.json").unlink()
    with pytest.raises(ModelError, match="must hold a config.json"):
        load_model(folder)


def test_broken_config(folder):
    (folder / "config.json").write_text("{")
    with pytest.raises(ModelError, match="must be JSON"):
        load_model(folder)


@pytest.mark.parametrize(
    "change",
    [
        {"model_type": "gpt2"},
        {"is_decoder": True},
        {"add_cross_attention": True},
        {"position_embedding_type": "relative_key"},
        {"hidden_act": "gelu_10"},
    ],
)
def test_config_that_is_not_a_bert_encoder(folder, change):
    spoil(folder, **change)
    with pytest.raises(ModelError, match=f"must describe a BERT encoder .*{next(iter(change))}"):
        load_model(folder)


def test_config_with_odd_sizes(folder):
    spoil(folder, num_attention_heads=5)
    with pytest.raises(ModelError, match="multiple of the heads"):
        load_model(folder)
    spoil(folder, num_attention_heads=0)
    with pytest.raises(ModelError, match="must be a positive integer, not 0"):
        load_model(folder)


def test_missing_weights_file(folder):
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="must hold a model.safetensors"):
        load_model(folder)


@pytest.mark.parametrize("damage", ["cut", "garbage", "empty"])
def test_corrupted_weights_file(folder, damage):
    path = folder / "model.safetensors"
    whole = path.read_bytes()
    path.write_bytes({"cut": whole[: len(whole) // 2], "garbage": b"\xff" * 100, "empty": b""}[damage])
    with pytest.raises(ModelError, match="must be a safetensors file"):
        load_model(folder)


def test_missing_and_misshapen_weights(folder, reduced):
    state = dict(reduced.bert.state_dict())
    key = "encoder.layer.0.output.dense.weight"
    state[key] = state[key][:, :10].contiguous()
    save_file(state, folder / "model.safetensors")
    with pytest.raises(ModelError, match="must fit its config.json"):
        load_model(folder)
    del state[key]
    save_file(state, folder / "model.safetensors")
    with pytest.raises(ModelError, match=f"{key} is missing"):
        load_model(folder)


def test_synthetic_is_seeded_and_has_outliers():
    first, again, other = (synthetic_bert(hidden=64, heads=4, ffn=128, seed=seed) for seed in (1, 1, 2))
    assert first.digest == again.digest != other.digest
    assert not first.trained
    gamma = first.bert.encoder.layer[0].output.LayerNorm.weight
    assert gamma.max() > 1.5 * gamma.median()
    assert 0.03 < first.bert.encoder.layer[0].attention.output.dense.weight.std() < 0.06
