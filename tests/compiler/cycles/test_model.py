"""The cycle model's own promises; `tests/sim/test_predicted.py` compares it with the hardware."""

import random

import numpy as np
import pytest

from bertha.compiler.compile import compile_model
from bertha.compiler.cycles import build
from bertha.compiler.cycles.model import run_commands
from bertha.compiler.placeholder import operand_plan, placeholder_model
from bertha.errors import ToolError
from bertha.models.shapes import ModelShape
from bertha.rtl.config import preset

SHAPE = ModelShape(hidden=256, head_dim=32, ffn=512, heads=(8, 8))


@pytest.mark.parametrize("seed", range(6))
def test_what_is_passed_over_changes_nothing(seed):
    chance = random.Random(f"skips {seed}")
    config = preset(chance.choice(["tiny4", "edge8", "edge16"]))
    recipe = chance.choice(["w8a8", "mixed", "a16"])
    model = placeholder_model(SHAPE, operand_plan(SHAPE, recipe))
    program = compile_model(model, config, tokens=chance.randint(1, 70), to_run=False)
    memory = {
        "latency": chance.randint(1, 400),
        "bandwidth": config.axi_data_bytes * chance.choice([0.25, 0.37, 0.5, 1, 2]),
    }
    print(f"seed {seed}: {recipe}, {memory}")
    with_skips, without = (
        run_commands(program.commands, config, skips=skips, **memory) for skips in (True, False)
    )
    assert with_skips.passed_over > 0.1 * with_skips.cycles and without.passed_over == 0
    assert with_skips.cycles == without.cycles
    assert (with_skips.commands == without.commands).all()
    assert np.array_equal(with_skips.activity, without.activity)
    assert np.array_equal(with_skips.tail, without.tail)
    assert (with_skips.bytes_read, with_skips.bytes_written) == (without.bytes_read, without.bytes_written)


def test_a_program_that_takes_too_long():
    model = placeholder_model(SHAPE, operand_plan(SHAPE, "w8a8"), layers=1)
    program = compile_model(model, preset("edge16"), tokens=8, to_run=False)
    with pytest.raises(RuntimeError, match="must end within 1000 cycles"):
        run_commands(program.commands, program.config, latency=100, bandwidth=8, most=1000)


def test_without_a_compiler(monkeypatch, tmp_path):
    monkeypatch.setattr(build, "BUILD", tmp_path)
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(ToolError, match="the cycle model needs the C\\+\\+ compiler no-such-compiler"):
        build.library.__wrapped__()


def test_a_compiler_that_fails(monkeypatch, tmp_path):
    monkeypatch.setattr(build, "BUILD", tmp_path)
    monkeypatch.setenv("CXX", "false")
    with pytest.raises(ToolError, match="compiling the cycle model failed"):
        build.library.__wrapped__()
    assert not list(tmp_path.glob("cycles/*.so"))
