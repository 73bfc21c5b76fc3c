"""What is done apart from the drain, in RTL: the same bytes, in the cycles and bytes that are predicted."""

import random

import pytest

from bertha.compiler.ablations import parse_ablations
from bertha.compiler.compile import compile_model
from bertha.compiler.predict import Timing, predict
from bertha.golden.integer_model import run_model
from bertha.rtl.config import preset
from tests.compiler.layers import random_inputs, random_model
from tests.sim.chip import chip, equal

PASSES = "gelu=pass+residual=pass+requantisation=pass+maximum=pass+moments=pass"


@pytest.mark.parametrize(
    "ablations",
    [f"{PASSES}+weights=panel", PASSES.replace("pass", "dram") + "+probabilities=dram+operand=matrix"],
)
def test_in_rtl(ablations):
    # No sum of this model is more than planes hold, so the bytes are the same.
    config, model, tokens = preset("tiny4"), random_model(random.Random(9), layers=2), 9
    x16, _ = random_inputs(model.layers[0], tokens, seed=9)
    program = compile_model(model, config, tokens=tokens, ablations=parse_ablations(ablations))
    on_chip = chip(config)
    (result,) = on_chip.run(program, [program.input_pieces(x16=x16)], latency=60, bandwidth=4)
    assert equal(result, run_model(model, x16)["output16"])
    assert predict(program, Timing(memory=60, bandwidth=4)).cycles == pytest.approx(on_chip.cycles, rel=0.005)
