"""`bertha predict`: shapes, configurations and compiled models to cycles, and what is refused."""

import json

import pytest

import bertha
from bertha.cli import main
from bertha.commands.predict import changed_config
from bertha.compiler.compile import compile_model
from bertha.compiler.placeholder import operand_plan, placeholder_model
from bertha.compiler.predict import Timing, predict
from bertha.models.encoder import load_model
from bertha.models.shapes import model_shape
from bertha.rtl.config import preset
from tests.bertha.small import small_folder, small_model

SIZES = "hidden=32,heads=2,ffn=64,layers=6"


def printed(capsys, *arguments):
    """What a command that succeeds prints."""
    code = main(["predict", *map(str, arguments)])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return captured.out


def found(capsys, *arguments):
    return json.loads(printed(capsys, *arguments, "--json"))


def test_tables(capsys):
    table = printed(capsys, "reduced", "--preset", "tiny4", "--tokens", 9)
    for part in (
        "cycles",
        "utilisation",
        "layer 1",
        "softmax",
        "P·V",
        "waits for",
        "FFN1 + GELU",
        "bound by",
    ):
        assert part in table


def test_json_adds_up(capsys):
    result = found(capsys, SIZES, "--preset", "tiny4", "--tokens", 9)
    for activity in result["activity"].values():
        assert sum(activity.values()) == result["cycles"]
    assert sum(layer["count"] * layer["cycles"] for layer in result["layers"]) == result["cycles"]
    assert sum(layer["count"] for layer in result["layers"]) == 6
    assert sum(kind["macs"] for kind in result["kinds"]) == result["macs"]
    linear = 4 * 32 * 32 + 2 * 32 * 64
    assert result["macs"] == 6 * (9 * linear + 2 * 9 * 9 * 32)


def test_configurations_and_memories_make_a_difference(capsys):
    base = [SIZES, "--preset", "tiny4", "--tokens", 16]
    cycles = found(capsys, *base)["cycles"]
    assert found(capsys, *base, "--set", "array_n=8")["cycles"] < cycles
    assert found(capsys, *base, "--set", "scratchpad_bytes=0x2000")["config"]["scratchpad_bytes"] == 8192
    assert found(capsys, *base, "--latency", 400)["cycles"] > cycles
    assert found(capsys, *base, "--bandwidth", 1)["cycles"] > cycles
    by_recipe = [
        found(capsys, *base, "--recipe", r)["cycles"] for r in ("w8a8", "w8a8-split", "mixed", "a16")
    ]
    assert by_recipe == sorted(by_recipe) and by_recipe[0] < by_recipe[-1]


def test_a_packing_leaves_out_attention(capsys):
    base = [SIZES, "--preset", "tiny4", "--tokens", 32, "--recipe", "w8a8"]
    whole, packed = found(capsys, *base), found(capsys, *base, "--sentences", "16,8,8")
    assert packed["cycles"] < whole["cycles"]
    linear = 4 * 32 * 32 + 2 * 32 * 64
    assert packed["macs"] == 6 * (32 * linear + 2 * (16 * 16 + 2 * 8 * 8) * 32)


def test_a_compiled_model_is_predicted_as_it_is(tmp_path, capsys):
    artifact = bertha.compile_model(small_model(tmp_path / "small"), "tiny4", 24)
    artifact.save(tmp_path / "model.bertha")
    result = found(capsys, tmp_path / "model.bertha")
    assert result["cycles"] == artifact.predicted_cycles
    slow = found(capsys, tmp_path / "model.bertha", "--latency", 300, "--bandwidth", 2)
    assert slow["cycles"] == predict(artifact.program, Timing(memory=300, bandwidth=2)).cycles
    assert main(["predict", str(tmp_path / "model.bertha"), "--tokens", "8"]) == 2
    assert "--tokens is chosen when a model is compiled" in capsys.readouterr().err


def test_shapes_are_those_of_the_models(tmp_path):
    folder = small_folder(tmp_path / "small")
    encoder, shape = load_model(folder), model_shape(folder)
    config = encoder.config
    assert (shape.hidden, shape.ffn, shape.layers) == (
        config.hidden_size,
        config.intermediate_size,
        config.num_hidden_layers,
    )
    assert set(shape.heads) == {config.num_attention_heads}
    base = model_shape("synthetic-base-12")
    assert (base.hidden, base.head_dim, base.ffn, base.heads) == (768, 64, 3072, (12,) * 12)
    assert model_shape("minilm").heads == (12,) * 6


def test_layers_of_different_heads_are_compiled_all():
    shape = model_shape(SIZES)
    pruned = type(shape)(hidden=32, head_dim=16, ffn=64, heads=(2, 1, 2, 1))
    model = placeholder_model(pruned, operand_plan(pruned, "w8a8"))
    program = compile_model(model, preset("tiny4"), tokens=5, to_run=False)
    assert [layer.count for layer in predict(program).layers] == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "model must be minilm, synthetic-base"),
        (["hidden=32,heads=2,ffn=64"], "has no layers"),
        (
            ["hidden=32,heads=5,ffn=64,layers=1"],
            "the hidden size must be a multiple of the heads (5), not 32",
        ),
        (["hidden=0,heads=1,ffn=64,layers=1"], "hidden, heads, ffn and layers must be positive"),
        (["reduced", "--set", "side=3"], "--set must name one of"),
        (["reduced", "--set", "array_n=3"], "array_n must be from 4 to 32, not 3"),
        (["reduced", "--set", "array_n=x"], "array_n must be an integer, not 'x'"),
        (["reduced", "--recipe", "fp4"], "recipe must be one of w8a8, w8a8-split, mixed, a16, not 'fp4'"),
        (["reduced", "--tokens", "0"], "tokens must be at least 1, not 0"),
        (["reduced", "--tokens", "8", "--sentences", "6,6"], "sentences of 12 tokens must fit the 8 tokens"),
        (["reduced", "--latency", "0"], "latency must be from 1 to 100000 cycles, not 0"),
        (["synthetic-base", "--preset", "tiny4", "--tokens", "4000"], "must have 17 row slots"),
    ],
)
def test_errors_are_one_sentence(capsys, arguments, message):
    assert main(["predict", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_changed_configurations():
    assert changed_config(preset("edge8"), ["axi_data_bits=32", "queue_depth=4"]).axi_data_bits == 32
    assert changed_config(preset("edge8"), []) == preset("edge8")
