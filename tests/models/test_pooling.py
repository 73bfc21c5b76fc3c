"""Pooling as a model's own files say."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from bertha.models.encoder import ModelError, load_model
from bertha.models.pooling import MODES, Pooling
from tests.models.checkpoints import tiny_model, write_model

KEYS = {
    "cls": "pooling_mode_cls_token",
    "mean": "pooling_mode_mean_tokens",
    "max": "pooling_mode_max_tokens",
    "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}
OFF = dict.fromkeys(KEYS.values(), False)


def states(tokens=5, padding=3, width=20):
    generator = np.random.default_rng(5)
    hidden = generator.normal(size=(tokens + padding, width)).astype(np.float32)
    return hidden, np.arange(tokens + padding) < tokens


def expected(mode, hidden, mask):
    """Straight from sentence-transformers' formulas, on a batch of one."""
    tokens, real = torch.from_numpy(hidden)[None].double(), torch.from_numpy(mask)[None, :, None].double()
    if mode == "cls":
        return tokens[0, 0]
    if mode == "max":
        return tokens.masked_fill(real == 0, -1e9).max(1).values[0]
    if mode == "lasttoken":
        return tokens[0, int(mask.sum()) - 1]
    weights = real * torch.arange(1, len(mask) + 1)[None, :, None] if mode == "weightedmean" else real
    total = (tokens * weights).sum(1)[0]
    return total / (weights.sum().sqrt() if mode == "mean_sqrt_len_tokens" else weights.sum())


def write_modules(folder, *kinds, pooling=None):
    """modules.json with the Transformer and these; `pooling` is 1_Pooling/config.json."""
    modules = [{"path": "", "type": "sentence_transformers.models.Transformer"}]
    for number, kind in enumerate(kinds, 1):
        modules.append({"path": f"{number}_{kind}", "type": f"sentence_transformers.models.{kind}"})
    (folder / "modules.json").write_text(json.dumps(modules))
    if pooling is not None:
        (folder / "1_Pooling").mkdir(exist_ok=True)
        (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))


def write_dense(folder, inputs, outputs, bias=True, changes=()):
    folder.mkdir(exist_ok=True)
    config = {"in_features": inputs, "out_features": outputs, "bias": bias}
    config["activation_function"] = "torch.nn.modules.activation.Tanh"
    (folder / "config.json").write_text(json.dumps({**config, **dict(changes)}))
    layer = torch.nn.Linear(inputs, outputs, bias=bias)
    torch.nn.init.normal_(layer.weight, std=0.2)
    state = {f"linear.{name}": tensor.detach().clone() for name, tensor in layer.named_parameters()}
    save_file(state, folder / "model.safetensors")
    return layer


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("normalize", [False, True])
def test_each_mode(tmp_path, mode, normalize):
    config = {"word_embedding_dimension": 20, **OFF, KEYS[mode]: True}
    write_modules(tmp_path, "Pooling", *["Normalize"] * normalize, pooling=config)
    hidden, mask = states()
    pooled = Pooling.from_folder(tmp_path, 20)(hidden, mask)
    right = expected(mode, hidden, mask)
    right = torch.nn.functional.normalize(right, dim=0) if normalize else right
    assert pooled.dtype == np.float32
    np.testing.assert_allclose(pooled, right.numpy(), rtol=0, atol=1e-6)


def test_several_modes_are_joined_in_their_order(tmp_path):
    flags = dict.fromkeys(reversed(KEYS.values()), True)
    write_modules(tmp_path, "Pooling", pooling={"word_embedding_dimension": 20, **flags})
    pooling = Pooling.from_folder(tmp_path)
    assert pooling.modes == ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")
    hidden, mask = states()
    right = np.concatenate([expected(mode, hidden, mask).numpy() for mode in pooling.modes])
    np.testing.assert_allclose(pooling(hidden, mask), right, rtol=0, atol=1e-6)


@pytest.mark.parametrize("named", ["max", ["max"]])
def test_named_mode_of_newer_versions(tmp_path, named):
    write_modules(tmp_path, "Pooling", pooling={"embedding_dimension": 20, "pooling_mode": named})
    assert Pooling.from_folder(tmp_path, 20).modes == ("max",)


def test_default_and_pooling_without_modules(tmp_path):
    default = Pooling.from_folder(tmp_path)
    assert (default.modes, default.normalize) == (("mean",), False)
    write_modules(tmp_path, pooling={"word_embedding_dimension": 20, **OFF, KEYS["cls"]: True})
    (tmp_path / "modules.json").unlink()
    assert Pooling.from_folder(tmp_path).modes == ("cls",)


def test_minilm_is_the_normalised_mean(minilm):
    assert (minilm.pooling.modes, minilm.pooling.dense, minilm.pooling.normalize) == (("mean",), (), True)


@pytest.mark.parametrize("bias", [True, False])
def test_dense_layer(tmp_path, bias):
    write_modules(
        tmp_path, "Pooling", "Dense", "Normalize", pooling={"word_embedding_dimension": 20, KEYS["cls"]: True}
    )
    layer = write_dense(tmp_path / "2_Dense", 20, 7, bias)
    hidden, mask = states()
    with torch.inference_mode():
        right = torch.nn.functional.normalize(torch.tanh(layer(torch.from_numpy(hidden[0]))), dim=0)
    pooled = Pooling.from_folder(tmp_path, 20)(hidden, mask)
    np.testing.assert_allclose(pooled, right.numpy(), rtol=0, atol=1e-6)


def test_nothing_but_padding():
    with pytest.raises(ValueError, match="at least one token"):
        Pooling()(np.zeros((3, 4)), np.zeros(3, dtype=bool))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"word_embedding_dimension": 20, **OFF}, r"must choose of the poolings cls, .*, not \[\]"),
        ({"pooling_mode_new": True}, r"must choose .*, not \['pooling_mode_new'\]"),
        ({"pooling_mode": "mode"}, r"must choose .*, not \['mode'\]"),
        ({"pooling_mode": 3}, "must choose .*, not 3"),
        ({"word_embedding_dimension": 8, KEYS["cls"]: True}, "must pool the encoder's 20 channels, not 8"),
    ],
)
def test_bad_pooling_is_refused_at_load(tmp_path, config, message):
    write_model(tmp_path, tiny_model("bert"))
    write_modules(tmp_path, "Pooling", pooling=config)
    with pytest.raises(ModelError, match=f"config.json {message}"):
        load_model(tmp_path)


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        (["Pooling", "LayerNorm"], "modules Transformer, Pooling, Dense and Normalize, not LayerNorm"),
        (["Normalize"], "in this order, but Normalize is in another place"),
        (["Pooling", "Normalize", "Dense"], "in this order, but Dense is in another place"),
        (["Pooling", "Pooling"], "in this order, but Pooling is in another place"),
    ],
)
def test_other_modules_are_refused_at_load(tmp_path, kinds, message):
    write_model(tmp_path, tiny_model("bert"))
    write_modules(tmp_path, *kinds, pooling={"word_embedding_dimension": 20, KEYS["cls"]: True})
    with pytest.raises(ModelError, match=message):
        load_model(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"activation_function": "torch.nn.Softsign"}, "must have the activation .*, not 'Softsign'"),
        ({"in_features": 21}, "must take the 20 channels before it, not 21"),
        ({"out_features": 6}, r"linear.weight has the shape \[7, 20\] instead of \[6, 20\]"),
        ({"bias": True}, "must hold linear.bias, but doesn't"),
    ],
)
def test_bad_dense_layer(tmp_path, change, message):
    write_modules(tmp_path, "Pooling", "Dense", pooling={"word_embedding_dimension": 20, KEYS["cls"]: True})
    write_dense(tmp_path / "2_Dense", 20, 7, False, change)
    with pytest.raises(ModelError, match=message):
        Pooling.from_folder(tmp_path, 20)
