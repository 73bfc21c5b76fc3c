"""`bertha compile`, `run` and `info`: from a model folder to results, and what is refused."""

import io
import json
import sys

import numpy as np
import pytest

import bertha
from bertha.cli import main
from bertha.runtime.artifact import load_artifact
from tests.bertha.small import TEXTS, random_integers, small_folder, small_model

LABELS = {0: "no", 1: "yes"}


@pytest.fixture(scope="module")
def artifact(tmp_path_factory):
    return bertha.compile_model(small_model(tmp_path_factory.mktemp("model")), "tiny4", 24)


@pytest.fixture(scope="module")
def file(artifact, tmp_path_factory):
    path = tmp_path_factory.mktemp("file") / "model.bertha"
    artifact.save(path)
    return str(path)


@pytest.fixture
def random_weights(monkeypatch):
    """Random integers in the place of the quantiser's; gives the recipes that were asked for."""
    recipes = []

    def quantised(encoder, recipe, settings, *, folder, notify=None):
        recipes.append((recipe, settings and settings.texts))
        return random_integers(encoder)

    monkeypatch.setattr("bertha.quantize.cache.cached_model", quantised)
    return recipes


def outputs(capsys, *arguments):
    """Exit code 0, and what the command printed to stdout and stderr."""
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return captured


def refused(capsys, *arguments):
    """The sentence of a command that ends with exit code 2."""
    assert main([str(argument) for argument in arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.startswith("error: ")
    assert captured.err.splitlines()[-1] == captured.err.strip()
    return captured.err


def test_compile_keeps_a_model(tmp_path, capsys, random_weights):
    folder, path = small_folder(tmp_path / "small"), tmp_path / "model.bertha"
    arguments = ["compile", folder, "-o", path, "--preset", "tiny4", "--tokens", "24", "--recipe", "mixed"]
    captured = outputs(capsys, *arguments)
    assert "predicted:" in captured.out and f"{path}: {path.stat().st_size:,} bytes" in captured.out
    loaded = load_artifact(path)
    assert (loaded.recipe, loaded.preset, loaded.program.tokens) == ("mixed", "tiny4", 24)
    assert random_weights == [("mixed", None)]
    result = json.loads(outputs(capsys, "run", path, "the film", "--json").out)
    assert result["sentences"][0]["tokens"] == 4


def test_options_may_stand_anywhere(file, tmp_path, capsys, random_weights):
    last = ["run", file, "the film", "--json", "--normalize", "a film", "slow"]
    found = json.loads(outputs(capsys, *last).out)["sentences"]
    assert [entry["text"] for entry in found] == ["the film", "a film", "slow"]
    found = json.loads(outputs(capsys, "run", "--json", "--backend", "integer", file, "slow").out)
    assert found["sentences"][0]["text"] == "slow"
    folder = small_folder(tmp_path / "small")
    table = outputs(capsys, "compile", "--preset", "tiny4", "--tokens", "9", folder).out
    assert "predicted:" in table


def test_compile_predicts_a_whole_model(tmp_path, capsys, random_weights):
    folder = small_folder(tmp_path / "small")
    table = outputs(capsys, "compile", "--model", folder, "--preset", "tiny4", "--seq", "9").out
    assert "softmax" in table and "predicted:" in table
    assert random_weights == [("w8a8-split", None)]
    texts = tmp_path / "texts"
    texts.write_text("the film\na film\n")
    arguments = ["--preset", "tiny4", "--seq", "9", "--disassemble", "--calibration", texts]
    text = outputs(capsys, "compile", folder, *arguments).out
    assert random_weights[1] == ("w8a8-split", ("the film", "a film"))
    assert text.startswith("; small: ") and "; layer1.scores.head3" in text


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["one", "--model", "two"], "model must be given once, not as 'one' and 'two'"),
        (["--layer", "0", "-o", "x.bertha"], "-o keeps whole models: leave out --layer"),
        (["--layer", "0", "--recipe", "a16"], "--recipe is a whole model's: leave out --layer"),
        (["--layer", "0", "--calibration", "x"], "--calibration is a whole model's: leave out --layer"),
        (["--calibration", "no file"], "text file 'no file' can't be read: No such file or directory"),
        (["-o", "/"], "-o must name a file, but '/' is a folder"),
        (["-o", "no folder/x"], "-o must be in a folder that exists, but 'no folder' doesn't"),
        (["--tokens", "0"], "tokens must be at least 1, not 0"),
        (["--preset", "huge"], "preset must be one of"),
        (["--recipe", "w4"], "recipe must be one of w8a8, w8a8-split, mixed, a16, not 'w4'"),
        (
            ["--hard-attention", "0"],
            "keys of hard attention must be from 1 to the 128 tokens of a run, not 0",
        ),
        (["--tokens", "9", "--hard-attention", "2:10"], "must be from 1 to the 9 tokens of a run, not 10"),
        (["--no-renormalise"], "--no-renormalise must go with --hard-attention, not without it"),
    ],
)
def test_compile_refuses(capsys, arguments, sentence):
    assert sentence in refused(capsys, "compile", *arguments)


def test_run_prints_embeddings(artifact, file, capsys):
    captured = outputs(capsys, "run", file, *TEXTS)
    vectors = bertha.run_model(artifact, TEXTS).embeddings
    lines = captured.out.splitlines()
    assert lines[0] == "the film was good  (6 tokens)"
    assert [float(value) for value in lines[1].split(" ... ")[0].split()] == pytest.approx(
        vectors[0, :6], abs=6e-5
    )
    assert lines[1].endswith("(20 values)")
    assert lines[-1].startswith("6 sentences, 52 tokens in ") and lines[-1].endswith("; by the integer model")
    assert captured.err == ""


def test_run_on_the_accelerator(artifact, file, capsys):
    captured = outputs(capsys, "run", file, *TEXTS, "--backend", "rtl", "--check", "--preset", "tiny4")
    last = captured.out.splitlines()[-1]
    assert "3 runs on tiny4: " in last and "; every byte equals the integer model" in last


def test_a_difference_is_an_error(artifact, file, capsys, monkeypatch):
    def wrong(model, inputs, **options):
        return [np.zeros_like(rows) for rows in inputs]

    monkeypatch.setattr("bertha.running.run_integers", wrong)
    assert main(["run", file, "a film", "--check"]) == 1
    error = capsys.readouterr().err
    assert "the accelerator differs from the integer model: sentence 0, token 0" in error


def test_results_as_json(artifact, file, capsys):
    found = json.loads(outputs(capsys, "run", file, *TEXTS, "--json", "--hidden").out)
    result = bertha.run_model(artifact, TEXTS, hidden=True)
    for number, entry in enumerate(found["sentences"]):
        assert entry["text"] == TEXTS[number]
        np.testing.assert_array_equal(np.float32(entry["embedding"]), result.embeddings[number])
        np.testing.assert_array_equal(np.float32(entry["hidden"]), result.hidden[number])
    assert found["report"]["tokens"] == 52


def test_hidden_states_are_shown_by_token(file, capsys):
    lines = outputs(capsys, "run", file, "the film", "--hidden").out.splitlines()
    assert [line.split()[0] for line in lines[2:6]] == ["[CLS]", "the", "film", "[SEP]"]


def test_results_in_files(artifact, file, capsys, tmp_path):
    result = bertha.run_model(artifact, TEXTS, hidden=True)
    captured = outputs(capsys, "run", file, *TEXTS, "--output", tmp_path / "e.npy")
    assert len(captured.out.splitlines()) == 1 and captured.out.strip().endswith("e.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "e.npy"), result.embeddings)
    outputs(capsys, "run", file, *TEXTS, "-o", tmp_path / "e.npz", "--hidden", "--normalize")
    with np.load(tmp_path / "e.npz") as arrays:
        np.testing.assert_allclose(np.linalg.norm(arrays["embeddings"], axis=1), 1, atol=1e-6)
        np.testing.assert_array_equal(arrays["hidden"], np.concatenate(result.hidden))
        assert arrays["tokens"].tolist() == [sentence.tokens for sentence in result.sentences]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["e.npy", "e.npz"]


def test_texts_of_files_and_of_standard_input(file, capsys, tmp_path, monkeypatch):
    path = tmp_path / "texts"
    path.write_bytes("\ufeffthe film\r\n\n  a bad film \n".encode())

    def texts(*arguments):
        found = json.loads(outputs(capsys, "run", file, *arguments, "--json").out)
        return [entry["text"] for entry in found["sentences"]]

    def feed(content):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    assert texts("good", "--input", path) == ["good", "the film", "a bad film"]
    feed(path.read_bytes())
    assert texts("-") == ["the film", "a bad film"]
    feed("caf\u00e9\n".encode())
    assert texts("--input", "-") == ["caf\u00e9"]
    feed(b"\xff")
    assert "standard input can't be read: it isn't UTF-8" in refused(capsys, "run", file, "-")
    feed(b"\n")
    assert "standard input must hold at least one sentence" in refused(capsys, "run", file, "-")


def test_long_texts_are_cut_with_a_warning(file, capsys):
    captured = outputs(capsys, "run", file, "the film", "a slow film , " * 9)
    assert captured.err == "warning: cut to 24 tokens: 'a slow film , a slow film , a slow fi...'\n"
    assert "(24 tokens)" in captured.out


def test_labels_and_pairs(tmp_path, capsys):
    quantized = small_model(tmp_path / "m", kind="ForSequenceClassification", id2label=LABELS)
    path = tmp_path / "classifier.bertha"
    bertha.compile_model(quantized, "tiny4", 24).save(path)
    pair = ("the film was slow", "a bad film")
    result = bertha.run_model(quantized, [pair])
    lines = outputs(capsys, "run", path, "the film was slow\ta bad film", "--pairs").out.splitlines()
    best = result.predictions[0]
    assert lines[0] == "the film was slow | a bad film  (10 tokens)"
    assert lines[1].split()[:2] == [best, f"{result.probabilities.max():.4f}"]
    found = json.loads(outputs(capsys, "run", path, "a film", "--json").out)["sentences"][0]
    assert found["label"] in LABELS.values() and sum(found["probabilities"].values()) == pytest.approx(1)
    outputs(capsys, "run", path, "a film", "-o", tmp_path / "all.npz")
    with np.load(tmp_path / "all.npz") as arrays:
        assert arrays["labels"].tolist() == ["no", "yes"] and arrays["probabilities"].shape == (1, 2)
    for text in ("no tab", "two\ttabs\there", "\tnothing"):
        assert "a pair must be two texts with a tab between them" in refused(
            capsys, "run", path, text, "--pairs"
        )
    assert "no, yes" in outputs(capsys, "info", path).out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "there must be a text, --input or - to run the model on, but there is none"),
        ([""], "a text must not be empty"),
        (["the film", "  "], "a text must not be empty"),
        (["\u200b"], "a text must have at least one token, but '\\u200b' has none"),
        (["a", "--backend", "gpu"], "backend must be one of integer, rtl, not 'gpu'"),
        (["a", "--preset", "huge"], "preset must be one of"),
        (["a", "--preset", "edge8"], "compiled for the preset 'tiny4', and can't be run on 'edge8'"),
        (["a", "-o", "x.txt"], "output must be a .npy or .npz file, not 'x.txt'"),
        (["a", "-o", "x.npy", "--hidden"], "hidden states of several lengths need a .npz file"),
        (["a", "-o", "no folder/x.npy"], "output must be in a folder that exists, but 'no folder' doesn't"),
        (["--input", "no file"], "text file 'no file' can't be read: No such file or directory"),
    ],
)
def test_run_refuses(file, capsys, arguments, sentence):
    assert sentence in refused(capsys, "run", file, *arguments)


@pytest.mark.parametrize("command", [["run", "FILE", "a"], ["info", "FILE"]])
def test_files_that_are_no_artifacts(file, capsys, tmp_path, command):
    def sentence(path):
        return refused(capsys, *[path if part == "FILE" else part for part in command])

    whole = open(file, "rb").read()
    path = tmp_path / "file"
    assert f"artifact {str(path)!r} can't be read: No such file or directory" in sentence(path)
    path.write_bytes(b"no zip")
    assert "must be a file that bertha compile wrote" in sentence(path)
    path.write_bytes(whole[: len(whole) // 2])
    assert "must be a file that bertha compile wrote, whole; but it is damaged" in sentence(path)
    middle = len(whole) // 2
    path.write_bytes(whole[:middle] + bytes([whole[middle] ^ 4]) + whole[middle + 1 :])
    assert "isn't what was written" in sentence(path)


def test_info(artifact, file, capsys):
    shown = outputs(capsys, "info", file).out
    for part in (
        "bert",
        "w8a8",
        "tiny4",
        f"{artifact.predicted_cycles:,} cycles a run",
        "Memory map",
        "sha256",
    ):
        assert part in shown
    found = json.loads(outputs(capsys, "info", file, "--json").out)
    assert found["program"]["commands"] == len(artifact.program.commands)
    assert [layer["ffn"] for layer in found["model"]["layers"]] == [24, 24]
