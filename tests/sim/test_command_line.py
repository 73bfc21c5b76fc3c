"""Bad input gives one clear sentence and an exit code, never a traceback."""

import json
import re

import pytest

from bertha.cli import main


def model_folder(folder, *, config=None, weights=b""):
    """A model folder with what a test wants to be wrong with it."""
    folder.mkdir()
    values = {
        "model_type": "bert",
        "hidden_size": 32,
        "num_attention_heads": 2,
        "intermediate_size": 64,
        "num_hidden_layers": 1,
        "vocab_size": 100,
    }
    (folder / "config.json").write_text(json.dumps(values | (config or {})))
    if weights is not None:
        (folder / "model.safetensors").write_bytes(weights)
    return str(folder)


@pytest.fixture
def refused(capsys):
    """Runs the command line and returns the one sentence it must end with."""

    def run(*arguments):
        try:
            code = main(arguments)
        except SystemExit as end:
            code = end.code
        lines = capsys.readouterr().err.strip().splitlines()
        assert code == 2
        assert len(lines) == 1
        return lines[0]

    return run


def test_unknown_preset(refused):
    message = "preset must be one of tiny4, edge8, edge16, server32, not 'huge'"
    assert message in refused("sim", "--preset", "huge")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seq", "0"], "seq must be at least 1 token, not 0"),
        (["--seq", "-3"], "seq must be at least 1 token, not -3"),
        (["--seq", "many"], "--seq/--tokens must be an integer, not 'many'"),
        (["--seq", "1.5"], "--seq/--tokens must be an integer, not '1.5'"),
        (["--seq", "100000"], "sequence length must be from 1 to the model's 512, not 100000"),
        (["--layer", "x"], "--layer must be an integer, not 'x'"),
        (["--layer", "2"], "layer must be from 0 to 1 in reduced, not 2"),
        (["--layer", "-1"], "layer must be from 0 to 1 in reduced, not -1"),
        (["--latency", "0"], "latency must be from 1 to 100000 cycles, not 0"),
        (["--latency", str(1 << 33)], "latency must be from 1 to 100000 cycles, not 8589934592"),
        (["--bandwidth", "0"], "bandwidth must be from 0.01 to 1024 bytes a cycle, not 0"),
        (["--bandwidth", "inf"], "bandwidth must be from 0.01 to 1024 bytes a cycle, not inf"),
        (["--bandwidth", "nan"], "bandwidth must be from 0.01 to 1024 bytes a cycle, not nan"),
        (["--bandwidth", "fast"], "--bandwidth must be a number, not 'fast'"),
        (["--duplicates", "1,2"], "duplicates must be four numbers from 0 such as 0,0,4,4, not 1,2"),
        (["--duplicates=-1,0,0,0"], "duplicates must be four numbers from 0 such as 0,0,4,4, not -1,0,0,0"),
        (["--duplicates", "a,b"], "--duplicates must be integers such as 0,0,4,4, not 'a,b'"),
        (["--duplicates", "33,0,0,0"], "duplicates of projections must be at most its 32 channels, not 33"),
        (["--duplicates", "0,0,0,65"], "duplicates of down must be at most its 64 channels, not 65"),
        (["--nonsense"], "unrecognized arguments: --nonsense"),
    ],
)
def test_options(refused, arguments, message):
    for layer in (["--layer", "0"], []):
        if layer or "--duplicates" not in arguments[0]:
            assert message in refused("sim", "--model", "reduced", "--preset", "tiny4", *layer, *arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--recipe", "w4a4"], "recipe must be one of w8a8, w8a8-split, mixed, a16, not 'w4a4'"),
        (["--packing", "tight"], "packing must be one of static, data, not 'tight'"),
        (["--duplicates", "4,0,4,4"], "--duplicates needs --layer: a whole model's recipe chooses them"),
        (["--pairs"], "pairs need a text, a pair a line"),
        (["--layer", "0", "--pairs"], "--pairs is for a whole model, not for --layer"),
        (["--layer", "0", "--recipe", "a16"], "--recipe is for a whole model, not for --layer"),
        (["--layer", "0", "--packing", "data"], "--packing is for a whole model, not for --layer"),
    ],
)
def test_options_of_a_layer_and_of_a_model(refused, arguments, message):
    assert message in refused("sim", "--model", "reduced", "--preset", "tiny4", *arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["speed", "--waves"], "unrecognized arguments: --waves"),
        (["speed", "--rounds", "0"], "--rounds must be an integer from 1 to 1000, not 0"),
        (["speed", "--rounds", "a"], "--rounds must be an integer from 1 to 1000, not 'a'"),
        (["speed", "--model", "reduced", "--latency", "0"], "latency must be from 1 to 100000 cycles, not 0"),
        (["accuracy", "--sentences", "0"], "--sentences must be an integer from 1 to 9999, not 0"),
        (
            ["accuracy", "--model", "reduced", "--layers", "0", "2"],
            "layer must be from 0 to 1 in reduced, not 2",
        ),
        (
            ["accuracy", "--model", "reduced", "--duplicates", "1,2,3"],
            "duplicates must be four numbers from 0 such as 0,0,4,4, not '1,2,3'",
        ),
        (
            ["accuracy", "--model", "reduced", "--duplicates", "0,0,0,0", "0,33,0,0"],
            "duplicates of output must be at most its 32 channels, not 33",
        ),
        (["sim", "--model", ""], "model must be a name or a folder, not ''"),
        (["verilog", "--preset", "huge"], "preset must be one of tiny4, edge8, edge16, server32, not 'huge'"),
        (["fpga", "report", "--preset", "huge"], "preset must be one of tiny4, edge8"),
        (["simm"], "invalid choice: 'simm'"),
    ],
)
def test_other_commands(refused, arguments, message):
    assert message in refused(*arguments)


def test_no_command(refused):
    assert "required" in refused()


def test_missing_model(refused, tmp_path):
    assert "nowhere" in refused("sim", "--model", str(tmp_path / "nowhere"))


def test_model_without_weights(refused, tmp_path):
    folder = model_folder(tmp_path / "model", weights=None)
    assert "model.safetensors" in refused("sim", "--model", folder)


def test_model_without_config(refused, tmp_path):
    assert "config.json" in refused("sim", "--model", str(tmp_path))


def test_no_bert_encoder(refused, tmp_path):
    folder = model_folder(tmp_path / "model", config={"model_type": "gpt2"})
    assert re.search(r"must describe a BERT encoder.*'gpt2'", refused("sim", "--model", folder))


@pytest.mark.parametrize("weights", [b"", b"not safetensors at all", (1 << 40).to_bytes(8, "little") + b"{}"])
def test_corrupted_weights(refused, tmp_path, weights):
    folder = model_folder(tmp_path / "model", weights=weights)
    assert "must be a safetensors file" in refused("sim", "--model", folder)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "can't be read"),
        (b"", "must hold at least one sentence"),
        (b" \n\t\n", "must hold at least one sentence"),
        (b"\xff\xfe\x00", "isn't UTF-8"),
    ],
)
@pytest.mark.parametrize("option", ["--text", "--input"])
def test_bad_text(refused, tmp_path, content, message, option):
    file = tmp_path / "text.txt"
    if content is not None:
        file.write_bytes(content)
    assert message in refused("sim", option, str(file))


def test_text_for_a_model_without_tokenizer(refused, tmp_path):
    file = tmp_path / "text.txt"
    file.write_text("A sentence.")
    assert "tokenizer.json" in refused("sim", "--model", "reduced", "--text", str(file))


@pytest.mark.parametrize("line", ["One sentence.", "One.\tTwo.\tThree.", "One.\t "])
def test_bad_pairs(refused, tmp_path, line):
    file = tmp_path / "pairs.txt"
    file.write_text(f"A premise.\tA conclusion.\n{line}\n")
    message = "a pair must be two sentences with one tab between them, not"
    assert message in refused("sim", "--pairs", "--text", str(file))


def test_help(capsys):
    with pytest.raises(SystemExit) as end:
        main(["sim", "--help"])
    assert end.value.code == 0
    text = capsys.readouterr().out
    for option in ("--model", "--layer", "--seq", "--tokens", "--recipe", "--packing", "--text", "--waves"):
        assert option in text
