"""Whole layers: accuracy on unseen text, padding, exactness, bounds, files."""

import dataclasses

import numpy as np
import pytest

from bertha.cli import main
from bertha.evaluate.layers import layer_agreement
from bertha.golden import integer_model, metrics, units
from bertha.golden.floating import layer_reference
from bertha.golden.layer import load_layer, save_layer
from bertha.models import text
from bertha.quantize.quantizer import Duplicates, Settings, evaluation_sentences, quantize_layer


def run(encoder, layer, sentence):
    inputs, _ = layer_reference(encoder, sentence, 0)
    x16 = integer_model.quantise_input(inputs, layer.input_scale)
    return integer_model.run_layer(layer, x16, key_mask=sentence.mask)


def test_accuracy_on_unseen_sentences(minilm, minilm_layer):
    sentences = evaluation_sentences(minilm, 30) + evaluation_sentences(minilm, 20, length=12, seed=5)
    result = layer_agreement(minilm, 0, minilm_layer, sentences)
    assert result.tokens > 1000
    assert result.cosine_mean >= 0.9995 and result.cosine_min >= 0.998
    assert result.snr_db >= 31


def test_accuracy_at_full_length_without_padding(minilm, minilm_layer):
    (sentence,) = text.tokenize(minilm, [text.long_text()], 128)
    result = layer_agreement(minilm, 0, minilm_layer, [sentence])
    assert result.tokens == 128 and result.cosine_mean >= 0.9995 and result.cosine_min >= 0.998


@pytest.mark.parametrize("which", ["minilm", "reduced"])
def test_padding_changes_no_byte_of_a_real_token(request, which):
    encoder, layer = request.getfixturevalue(which), request.getfixturevalue(f"{which}_layer")
    generator = np.random.default_rng(7)
    short = text.random_sentences(encoder, 1, 11, seed=6)[0]
    x16 = integer_model.quantise_input(layer_reference(encoder, short, 0)[0], layer.input_scale)
    padding = generator.integers(-32768, 32768, size=(6, layer.hidden))
    padded = integer_model.run_layer(layer, np.concatenate([x16, padding]), key_mask=np.arange(17) < 11)
    for name, alone in integer_model.run_layer(layer, x16).items():
        part = padded[name]
        if name in ("scores", "probabilities"):
            assert np.array_equal(part[:, :11, :11], alone)
            assert np.all(part[:, :, 11:] == (-32768 if name == "scores" else 0))
        elif name in ("softmax_mult", "softmax_shift"):
            assert np.array_equal(part[:, :11], alone)
        else:
            assert np.array_equal(part[:11], alone), name


def slow_linear(x8, linear):
    """int16 results one by one, in Python's integers."""
    results = np.empty((len(x8), len(linear.weight)), dtype=np.int64)
    for row, activations in enumerate(x8.tolist()):
        for column, weights in enumerate(linear.weight.tolist()):
            total = sum(a * w for a, w in zip(activations, weights, strict=True)) + int(linear.bias[column])
            shift = int(linear.shift[column])
            scaled = (total * int(linear.mult[column]) + (1 << shift >> 1)) >> shift
            results[row, column] = max(-32768, min(32767, scaled))
    return results


def test_linear_layers_against_plain_python(reduced):
    layer = quantize_layer(
        reduced,
        0,
        Settings(
            calibration=20, length=24, duplicates=Duplicates(projections=2, output=2, intermediate=2, down=2)
        ),
    )
    result = run(reduced, layer, text.random_sentences(reduced, 1, 5, seed=1)[0])
    assert result["x8"].shape == (5, 34) and result["hidden"].shape == (5, 66)
    for name in ("query", "key", "value"):
        linear = getattr(layer, name)
        assert np.array_equal(result[name], np.clip(slow_linear(result["x8"], linear), -128, 127))
    activated = units.piecewise(
        slow_linear(result["attention_out8"], layer.intermediate), layer.gelu_base, layer.gelu_slope
    )
    wide = units.round_half_up(activated, layer.intermediate.post_shift)
    assert np.array_equal(result["hidden"][:, :64], np.clip(wide, -128, 127))
    cut = (wide - np.clip(wide, -128, 127))[:, layer.hidden_residue]
    assert np.array_equal(result["hidden"][:, 64:], np.clip(cut, -128, 127))
    total = slow_linear(result["hidden"], layer.down) + result["attention_out16"]
    assert np.array_equal(result["ffn_sum"], np.clip(total, -32768, 32767))
    query, key = (result[name].astype(int).reshape(5, 2, 16)[:, 1] for name in ("query", "key"))
    scores = query @ key.T * int(layer.score_mult[1])
    shift = int(layer.score_shift[1])
    assert np.array_equal(result["scores"][1], np.clip((scores + (1 << shift >> 1)) >> shift, -32768, 32767))
    check_context(layer, result)


def check_context(layer, result):
    """Context and its residues from P, V and the row factor, in Python's integers."""
    wide = np.empty((len(result["value"]), layer.hidden), dtype=np.int64)
    for feature, column in enumerate(result["value"].T.tolist()):
        head = feature // layer.head_dim
        for row, probabilities in enumerate(result["probabilities"][head].tolist()):
            shift = max(int(result["softmax_shift"][head, row]) - int(layer.context_gain[head]), 0)
            total = sum(p * v for p, v in zip(probabilities, column, strict=True))
            wide[row, feature] = (total * int(result["softmax_mult"][head, row]) + (1 << shift >> 1)) >> shift
    cut = (wide - np.clip(wide, -128, 127))[:, layer.context_residue]
    expected = np.concatenate([np.clip(wide, -128, 127), np.clip(cut, -128, 127)], axis=1)
    assert np.array_equal(result["context"], expected)
    exact = result["probabilities"][0] / result["probabilities"][0].sum(axis=1, keepdims=True)
    value = result["value"][:, : layer.head_dim] * 2.0 ** layer.context_gain[0]
    assert np.abs(wide[:, : layer.head_dim] - exact @ value).max() < 0.51


def test_weights_of_duplicates_are_copies(reduced):
    settings = Settings(calibration=20, length=24, duplicates=Duplicates(projections=3, down=2))
    layer = quantize_layer(reduced, 0, settings)
    for linear, flags in ((layer.query, layer.input_quantize.residue), (layer.down, layer.hidden_residue)):
        assert np.array_equal(linear.duplicates, np.flatnonzero(flags))
        width = linear.in_features
        assert np.array_equal(linear.weight[:, width:], linear.weight[:, :width][:, linear.duplicates])


def test_random_reduced_layer_is_near_float(reduced, reduced_layer):
    result = layer_agreement(reduced, 0, reduced_layer, evaluation_sentences(reduced, 10, length=20))
    assert result.cosine_mean >= 0.999 and result.cosine_min >= 0.995


def test_accumulator_bounds_hold_and_are_reached(minilm_layer, reduced_layer):
    assert max(integer_model.accumulator_bounds(minilm_layer, 4096).values()) < 2**31
    linear = reduced_layer.intermediate
    bounds = integer_model.accumulator_bounds(reduced_layer, 128)
    weight = linear.weight.astype(int)
    worst = max(
        abs(int(np.where(sign * row > 0, 127, -128) @ row) + int(bias))
        for row, bias in zip(weight, linear.bias)
        for sign in (1, -1)
    )
    assert 0.98 * bounds["intermediate"] < worst <= bounds["intermediate"]


@pytest.mark.parametrize("tokens", [1, 2, 33])
def test_any_number_of_tokens(reduced, reduced_layer, tokens):
    result = run(reduced, reduced_layer, text.random_sentences(reduced, 1, tokens)[0])
    assert result["output16"].shape == (tokens, 32) and result["scores"].shape == (2, tokens, tokens)
    assert result["probabilities"].max(axis=-1).min() == 255


def test_bad_shapes_and_masks(reduced_layer):
    with pytest.raises(ValueError, match=r"shape \[tokens, 32\]"):
        integer_model.run_layer(reduced_layer, np.zeros((4, 31)))
    with pytest.raises(ValueError, match=r"key_mask must have the shape \[4\]"):
        integer_model.run_layer(reduced_layer, np.zeros((4, 32)), key_mask=np.ones(3))
    with pytest.raises(ValueError, match=r"ranges must have the shape \[4, 2\], not \[4\]"):
        integer_model.run_layer(reduced_layer, np.zeros((4, 32)), np.ones(4))
    for wrong in ([-1, 2], [0, 5]):
        with pytest.raises(ValueError, match="ranges must be from 0 to 4, not"):
            integer_model.run_layer(reduced_layer, np.zeros((4, 32)), [[0, 4]] * 3 + [wrong])


@pytest.mark.parametrize("tokens", [1, 4])
def test_a_mask_without_any_visible_key_gives_no_context(reduced_layer, tokens):
    result = integer_model.run_layer(reduced_layer, np.full((tokens, 32), 77), key_mask=np.zeros(tokens))
    for name in ("probabilities", "softmax_mult", "softmax_shift", "context"):
        assert not result[name].any(), name
    assert (result["scores"] == units.MASKED_SCORE).all()


def test_saved_layer_is_the_same(tmp_path, reduced_layer):
    save_layer(tmp_path / "sub" / "layer.npz", reduced_layer)
    restored = load_layer(tmp_path / "sub" / "layer.npz")

    def compare(one, other):
        for field in dataclasses.fields(one):
            a, b = getattr(one, field.name), getattr(other, field.name)
            if dataclasses.is_dataclass(a):
                compare(a, b)
            else:
                assert np.array_equal(a, b) and np.asarray(a).dtype == np.asarray(b).dtype, field.name

    compare(reduced_layer, restored)


def test_hard_attention_is_kept_in_a_file(tmp_path, reduced_layer):
    hard = dataclasses.replace(reduced_layer, attention_keys=7, attention_renormalised=False)
    save_layer(tmp_path / "layer.npz", hard)
    restored = load_layer(tmp_path / "layer.npz")
    assert (restored.attention_keys, restored.attention_renormalised) == (7, False)


def test_a_file_from_before_hard_attention(tmp_path, reduced_layer):
    save_layer(tmp_path / "layer.npz", reduced_layer)
    with np.load(tmp_path / "layer.npz") as arrays:
        np.savez(
            tmp_path / "old.npz", **{name: arrays[name] for name in arrays if "attention_ke" not in name}
        )
    assert load_layer(tmp_path / "old.npz").attention_keys == 0


DAMAGE = {
    "empty": lambda path, arrays: path.write_bytes(b""),
    "garbage": lambda path, arrays: path.write_bytes(b"\xff" * 1000),
    "cut": lambda path, arrays: path.write_bytes(path.read_bytes()[:-5000]),
    "cut to a header": lambda path, arrays: path.write_bytes(path.read_bytes()[:30]),
    "a flipped byte": lambda path, arrays: path.write_bytes(flipped(path.read_bytes())),
    "one array": lambda path, arrays: write_array(path, np.zeros(3)),
    "pickled": lambda path, arrays: np.savez(path, **{**arrays, "hidden": np.array([None])}),
    "an array missing": lambda path, arrays: np.savez(
        path, **{name: array for name, array in arrays.items() if name != "down.bias"}
    ),
    "wrong type": lambda path, arrays: np.savez(
        path, **{**arrays, "down.weight": arrays["down.weight"].astype(np.int16)}
    ),
    "wrong shape": lambda path, arrays: np.savez(path, **{**arrays, "down.bias": arrays["down.bias"][:-1]}),
    "a number as an array": lambda path, arrays: np.savez(path, **{**arrays, "hidden": np.array([32, 32])}),
    "wrong heads": lambda path, arrays: np.savez(path, **{**arrays, "heads": np.array(3)}),
    "keys below 0": lambda path, arrays: np.savez(path, **{**arrays, "attention_keys": np.array(-1)}),
    "wrong shift": lambda path, arrays: np.savez(path, **{**arrays, "down.shift": arrays["down.shift"] | 64}),
    "scale that isn't a number": lambda path, arrays: np.savez(
        path, **{**arrays, "input_scale": np.array(np.nan)}
    ),
    "a folder": lambda path, arrays: (path.unlink(), path.mkdir()),
}


def flipped(data):
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 0x40]) + data[middle + 1 :]


def write_array(path, array):
    with open(path, "wb") as file:
        np.save(file, array)


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_file_is_no_layer(tmp_path, reduced_layer, damage):
    path = tmp_path / "layer.npz"
    save_layer(path, reduced_layer)
    with np.load(path) as arrays:
        arrays = dict(arrays)
    DAMAGE[damage](path, arrays)
    with pytest.raises((OSError, ValueError)):
        load_layer(path)


def test_metrics_look_at_real_tokens_only():
    reference = np.array([[3.0, 4.0], [1.0, 0.0], [9.0, 9.0]])
    result = np.array([[3.0, 4.0], [1.0, 1.0], [0.0, 0.0]])
    found = metrics.agreement(result, reference, [True, True, False])
    assert found.tokens == 2 and found.max_error == 1
    assert found.cosine_min == pytest.approx(2**-0.5) and found.cosine_mean == pytest.approx(
        (1 + 2**-0.5) / 2
    )
    assert found.snr_db == pytest.approx(10 * np.log10(26))
    zero = np.zeros((1, 2))
    assert metrics.agreement(zero, zero).cosine_min == 1 and metrics.agreement(zero, zero + 1).cosine_min == 0


def test_command_line(capsys):
    assert (
        main(
            ["accuracy", "--model", "reduced", "--layers", "0", "--sentences", "6", "--duplicates", "0,0,2,0"]
        )
        == 0
    )
    assert "0,0,2,0" in capsys.readouterr().out
    assert main(["accuracy", "--model", "nowhere"]) == 2
    assert capsys.readouterr().err.startswith("error: model must be")
