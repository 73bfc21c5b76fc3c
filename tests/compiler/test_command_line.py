import re

import pytest

from bertha.cli import main
from bertha.commands import compile as command_line
from bertha.compiler.compile import compile_layer
from bertha.compiler.disassemble import disassemble
from bertha.rtl.config import preset
from tests.compiler.layers import random_layer

LAYER = ["compile", "--layer", "0"]


@pytest.fixture
def small_model(monkeypatch):
    monkeypatch.setattr(command_line, "_quantised_layer", lambda options: random_layer(seed=0))


def test_report(small_model, capsys):
    assert main([*LAYER, "--preset", "tiny4", "--seq", "9"]) == 0
    output = capsys.readouterr().out
    assert "softmax" in output and "predicted:" in output


def test_predictions_follow_the_memory(small_model, capsys):
    def cycles(*arguments):
        assert main([*LAYER, "--preset", "tiny4", "--seq", "9", *arguments]) == 0
        return int(re.search(r"predicted: ([\d,]+) cycles", capsys.readouterr().out)[1].replace(",", ""))

    assert cycles() < cycles("--latency", "1000") < cycles("--bandwidth", "0.05")


def test_disassembly(small_model, capsys):
    assert main([*LAYER, "--preset", "tiny4", "--seq", "9", "--disassemble"]) == 0
    program = compile_layer(random_layer(seed=0), preset("tiny4"), seq=9)
    lines = capsys.readouterr().out.splitlines()
    assert lines == list(disassemble(program))
    assert len(lines) == len(program.commands) + 1
    assert any("GEMM" in line and "statistics=MAX" in line and "wait s" in line for line in lines)
    assert any("/tile" in line for line in lines)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--preset", "huge"], "preset must be one of tiny4, edge8, edge16, server32, not 'huge'"),
        (["--seq", "0"], "tokens must be at least 1, not 0"),
        (["--seq", "4000", "--preset", "tiny4"], "must fit the scratchpad on tiny4"),
        (["--latency", "0"], "latency must be from 1 to 100000 cycles, not 0"),
        (["--bandwidth", "inf"], "bandwidth must be from 0.01 to 1024 bytes a cycle, not inf"),
    ],
)
def test_errors_are_one_sentence(small_model, capsys, arguments, message):
    assert main([*LAYER, *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
