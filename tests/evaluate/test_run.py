"""`bertha accuracy` of small models, from the command line to report.json."""

import functools
import json

import pytest

from bertha.cli import main
from bertha.quantize.cache import cached_model
from bertha.quantize.quantizer import Settings
from tests.models.checkpoints import VOCABULARY, tiny_model, write_model

WORDS = (
    "[PAD] [UNK] [CLS] [SEP] [MASK] the a and of is film movie good bad great boring not very i it this was but "
    "with for as on by an at his her they all . , ! ? ' -"
).split()


@pytest.fixture
def build(tmp_path, monkeypatch):
    """Where everything goes; little calibration text is enough for these models."""
    quick = functools.partial(cached_model, settings=Settings(calibration=20, length=24))
    monkeypatch.setattr("bertha.evaluate.run.cached_model", quick)
    monkeypatch.setattr("bertha.commands.accuracy.BUILD", tmp_path / "build")
    return tmp_path / "build"


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    """The folder of a tiny model that knows some words."""
    folder = tmp_path_factory.mktemp("models") / "reader"
    write_model(folder, tiny_model("bert"))
    assert len(WORDS) == VOCABULARY
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    return folder


def run(*options):
    """The command's exit code."""
    try:
        return main(["accuracy", *map(str, options)])
    except SystemExit as end:
        return end.code


def test_report_of_random_tokens(build, capsys):
    options = ("--model", "reduced", "--recipes", "w8a8", "a16", "--preset", "tiny4", "--tokens", "24")
    assert run(*options, "--sentences", "30") == 0
    printed = capsys.readouterr().out
    assert "30 unseen sentences" in printed and "report.json" in printed
    report = json.loads((build / "accuracy" / "report.json").read_text())
    assert report["tasks"] == {} and report["corpus"]["sentences"] == 30
    plain, wide = report["recipes"]["w8a8"], report["recipes"]["a16"]
    for result in (plain, wide):
        assert 0.99 < result["min"] <= result["p1"] <= result["mean"] <= 1 + 1e-9
        assert len(result["snr_db"]) == 2 and len(result["cosines"]) == 30
        assert result["short"]["sentences"] > 0
        assert result["domains"]["random tokens"]["min"] == result["min"]
    assert wide["snr_db"][-1] > plain["snr_db"][-1]
    assert wide["macs"] > plain["macs"] >= plain["model_macs"] == wide["model_macs"]
    assert wide["cycles"] > plain["cycles"]


def test_tasks(build, reader, tmp_path, capsys):
    folder = tmp_path / "tasks" / "mine"
    folder.mkdir(parents=True)
    rows = [f"{label}\tit is a {word} film {'!' * count}" for count in range(6)
            for label, word in (("yes", "good"), ("no", "bad"), ("yes", "great"))]  # fmt: skip
    (folder / "train.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    pairs = tmp_path / "tasks" / "pairs"
    pairs.mkdir()
    (pairs / "test.csv").write_text("good,very good,4.5\nbad,the film,1\nall,but,0.5\n'', on,2\n")
    options = ("--model", reader, "--recipes", "w8a8", "--preset", "tiny4", "--tokens", "12")
    options += ("--sentences", "20", "--tasks", tmp_path / "tasks", "--train", "40", "--test", "30")
    assert run(*options) == 0
    printed = capsys.readouterr().out
    assert "mine, accuracy" in printed and "Downstream tasks" in printed
    first = (build / "accuracy" / "report.json").read_text()
    tasks = json.loads(first)["tasks"]
    assert list(tasks) == ["reviews-short", "neighbours", "reviews-long", "mine", "pairs"]
    assert tasks["mine"]["train"] == 12 and tasks["mine"]["test"] == 6 and tasks["mine"]["seeds"] == 5
    assert tasks["reviews-short"]["train"] == 40 and tasks["neighbours"]["test"] == 70
    assert tasks["pairs"]["measure"] == "spearman"
    for task in tasks.values():
        comparison = task["recipes"]["w8a8"]
        low, high = comparison["interval"]
        assert low <= comparison["difference"] <= high
        assert comparison["difference"] == pytest.approx(comparison["result"] - comparison["reference"])
        assert len(comparison["differences"]) == (5 if task["measure"] == "accuracy" else 1)
    # What was kept gives the same again.
    assert run(*options) == 0
    assert (build / "accuracy" / "report.json").read_text() == first


@pytest.mark.parametrize(
    "options, message",
    [
        (["--recipes", "w8a8", "w4"], "recipe must be one of w8a8, w8a8-split, mixed, a16, not 'w4'"),
        (["--tasks", "no/such"], "task folder must be a folder with TSV files, not 'no/such'"),
        (["--no-tasks", "--tasks", "no/such"], "task folders must not be given together with no tasks"),
        (["--tokens", "2"], "--tokens must be an integer from 3 to 512, not 2"),
        (["--seeds", "0"], "--seeds must be an integer from 1 to 99, not 0"),
        (["--train", "1"], "--train must be an integer from 2 to 999999, not 1"),
        (["--preset", "edge9"], "preset must be one of"),
        (["--model", "no/such"], "must be an existing folder"),
    ],
)
def test_refused_before_anything_is_quantised(build, capsys, options, message):
    assert run("--model", "reduced", "--sentences", "1", *options) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("error: ") and message in printed.err and printed.err.count("\n") == 1
    assert not printed.out and not build.exists()


def test_a_task_for_a_model_without_tokenizer(build, tmp_path, capsys):
    (tmp_path / "train.tsv").write_text("a\tone\nb\ttwo\na\tthree\n")
    assert run("--model", "reduced", "--tasks", tmp_path) == 2
    assert "needs a model with a tokenizer" in capsys.readouterr().err and not build.exists()
