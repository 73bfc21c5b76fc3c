"""The results page's figures of SCALE-Sim."""

import json
import subprocess

import pytest

from bertha.cli import main
from bertha.commands import scalesim
from bertha.commands.scalesim import SHAPES, figures

# What SCALE-Sim 3.0.0 says of MiniLM's products for 128 tokens on 16 x 16: 4 x (384 x 384), 12 x scores,
# 12 x context, 384 to 1536 and back.
CYCLES = [
    {"os": 79488, "ws": 100224, "is": 82560},
    {"os": 3968, "ws": 2784, "is": 2784},
    {"os": 2528, "ws": 2784, "is": 4992},
    {"os": 317952, "ws": 400896, "is": 303744},
    {"os": 300672, "ws": 400896, "is": 330240},
]
ROW = ["933,888", "1,014,528 (92.1 %)", "1,269,504 (73.6 %)", "986,112 (94.7 %)"]


def test_products_of_a_layer():
    products = SHAPES["minilm"].products(128)
    assert products == [
        (4, 128, 384, 384),
        (12, 128, 128, 32),
        (12, 128, 32, 128),
        (1, 128, 1536, 384),
        (1, 128, 384, 1536),
    ]


def test_figures_of_the_results_page():
    assert figures(SHAPES["minilm"].products(128), 16, CYCLES) == ROW


def test_the_table(monkeypatch, tmp_path, capsys):
    asked = []

    def run(command, *, input=None, **options):
        asked.append(json.loads(input) if input else command[1:4])
        return subprocess.CompletedProcess(command, 0, json.dumps(CYCLES), "")

    monkeypatch.setattr(scalesim, "BUILD", tmp_path)
    monkeypatch.setattr(scalesim.subprocess, "run", run)
    for _ in range(2):  # the environment is made once
        assert main(["scalesim", "--models", "minilm", "--arrays", "16"]) == 0
        output = capsys.readouterr().out
        assert all(cell in output for cell in ["minilm, 16 x 16", *ROW])
    products = [[16, 16, *sizes] for _, *sizes in SHAPES["minilm"].products(128)]
    assert asked == [["-m", "venv", "--clear"], ["-m", "pip", "install"], products, products]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--models", "tiny"], "model must be one of minilm, base, large, not 'tiny'"),
        (["--arrays", "0"], "must be an integer from 1 to 128, not 0"),
        (["--seq", "4097"], "must be an integer from 1 to 4096, not 4097"),
    ],
)
def test_bad_options(arguments, sentence, capsys):
    try:
        code = main(["scalesim", *arguments])
    except SystemExit as end:
        code = end.code
    assert code == 2
    error = capsys.readouterr().err
    assert sentence in error and error.count("\n") == 1


def test_what_fails_is_one_sentence(monkeypatch, tmp_path, capsys):
    def run(command, **options):
        return subprocess.CompletedProcess(command, 1, "", "")

    monkeypatch.setattr(scalesim, "BUILD", tmp_path)
    monkeypatch.setattr(scalesim.subprocess, "run", run)
    assert main(["scalesim"]) == 1
    assert f"SCALE-Sim can't be installed (exit 1); see {tmp_path}" in capsys.readouterr().err
