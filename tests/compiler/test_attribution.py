"""Cycles, bytes and causes by operation: they add up, and are those that shapes and programs say."""

from collections import Counter

import numpy as np
import pytest

from bertha.compiler.attribution import (
    CommandTimes,
    attribute,
    by_layer,
    by_purpose,
    cause_of_activity,
    cause_of_class,
)
from bertha.compiler.compile import compile_model
from bertha.compiler.operations import PURPOSES
from bertha.compiler.predict import Timing, predict
from bertha.prediction import Workload, compile_workload
from bertha.rtl.config import preset
from bertha.rtl.counters.classes import CycleClass
from bertha.rtl.isa import COMMAND_BYTES, Engine, Opcode
from tests.compiler.layers import chained, random_layer

HIDDEN, FFN, TOKENS, N = 32, 64, 8, 4  # of the reduced model, which has 2 heads and 2 layers


@pytest.fixture(scope="module")
def reduced_costs():
    """A prediction of the reduced model on tiny4, and its costs by layer and operation."""
    program, layers = compile_workload(
        Workload(model="reduced", tokens=TOKENS, recipe="w8a8"), preset("tiny4")
    )
    prediction = predict(program, Timing(bandwidth=8), layers=layers)
    costs = attribute(program, CommandTimes.of_prediction(prediction))
    return prediction, {(cost.layer, cost.name): cost for cost in costs}


def test_everything_adds_up(reduced_costs):
    prediction, costs = reduced_costs
    for folded in (costs.values(), by_purpose(costs.values()), by_layer(costs.values())):
        assert sum(cost.cycles for cost in folded) == prediction.cycles
        assert sum(cost.macs for cost in folded) == prediction.macs
        code = COMMAND_BYTES * len(prediction.program.commands)
        assert sum(cost.bytes_read for cost in folded) == prediction.bytes_read - code
        assert sum(cost.bytes_written for cost in folded) == prediction.bytes_written
        for engine, busy in prediction.busy.items():
            assert sum(cost.busy.get(engine, 0) for cost in folded) == busy
    assert [cost.layer for cost in by_layer(costs.values())] == [None, 0, 1]


def test_operands_are_counted_once(reduced_costs):
    """Of GEMMs of two layers: one byte an operand and result, two where the stream is added or scores are written."""
    _, costs = reduced_costs
    record = 8
    for layer in (0, 1):
        down, hidden = costs[layer, "down"], costs[layer, "intermediate"]
        once = TOKENS * FFN + HIDDEN * FFN + record * HIDDEN
        assert down.operand_bytes == once + 2 * 2 * TOKENS * HIDDEN  # the residual is read, the sum written
        assert hidden.operand_bytes == TOKENS * HIDDEN + FFN * HIDDEN + record * FFN + TOKENS * FFN
        scores, heads = costs[layer, "scores"], 2
        assert scores.operand_bytes >= 2 * TOKENS * HIDDEN + heads * 2 * TOKENS * TOKENS
        assert hidden.intensity == TOKENS * HIDDEN * FFN / hidden.operand_bytes
        assert down.bytes_read == down.least_bytes == HIDDEN * FFN + record * HIDDEN


def test_what_goes_through_dram_and_back_is_more_than_the_least():
    """A small scratchpad spills: weights are loaded again, and the stream and operands come and go."""
    model = chained([random_layer(seed=1), random_layer(seed=2)])
    config = preset("tiny4").replace(scratchpad_bytes=1 << 13, row_slots=16)
    program = compile_model(model, config, tokens=40)
    assert program.scratch
    costs = attribute(program, CommandTimes.of_prediction(predict(program)))
    moved = sum(cost.dram_bytes for cost in costs)
    # Independently: distinct lines outside of the scratch.
    line, touched = config.line_bytes, set()
    for command in program.commands:
        if command.opcode in (Opcode.LOAD, Opcode.STORE):
            for row in range(command.get("rows")):
                first = command.get("dram_addr") + row * command.get("dram_stride")
                touched |= set(range(first, first + line * command.get("lines"), line))
    for first, count in program.scratch:
        touched -= set(range(first, first + count))
    least = sum(cost.least_bytes for cost in costs)
    assert least == line * len(touched) < moved
    assert {"residual"} <= {cost.purpose for cost in costs} <= set(PURPOSES)


def test_a_layer_that_stands_for_others_counts_as_often():
    sizes = "hidden=32,heads=2,ffn=64,layers=6"
    program, layers = compile_workload(Workload(model=sizes, tokens=5, recipe="w8a8"), preset("tiny4"))
    prediction = predict(program, layers=layers)
    costs = attribute(program, CommandTimes.of_prediction(prediction))
    first, many, last = by_layer(costs)[1:]
    assert many.macs == 4 * first.macs == 4 * last.macs and many.commands > 3 * last.commands
    assert sum(cost.cycles for cost in costs) == prediction.cycles


def test_causes():
    """A class of cycles, and the cycle model's activity, have the same cause; waiting for oneself is a dependency."""
    for engine, own in ((Engine.GEMM, "array"), (Engine.VECTOR, "vector"), (Engine.LOAD, "DRAM")):
        assert cause_of_class(engine, CycleClass.WORKING) == cause_of_activity(engine, "working") == own
        assert cause_of_class(engine, CycleClass.SCRATCHPAD) == cause_of_activity(engine, "scratchpad")
        assert (
            cause_of_class(engine, CycleClass.COMMAND) == cause_of_activity(engine, "command") == "dependency"
        )
    causes = Counter(cause_of_class(Engine.GEMM, cycle_class) for cycle_class in CycleClass)
    assert causes == {"array": 2, "vector": 1, "DRAM": 4, "dependency": 5}
    assert cause_of_class(Engine.GEMM, CycleClass.SEMAPHORE_GEMM) == "dependency"
    assert cause_of_activity(Engine.GEMM, "wait_vector") == "vector"
    assert cause_of_activity(Engine.VECTOR, "wait_gemm") == "array"
    assert cause_of_activity(Engine.VECTOR, "wait_vector") == "dependency"


def test_a_slow_memory_bounds_and_a_fast_one_does_not():
    program, _ = compile_workload(Workload(model="reduced", tokens=4, recipe="w8a8"), preset("tiny4"))
    bounds = {}
    for bandwidth in (0.25, 8):
        times = CommandTimes.of_prediction(predict(program, Timing(memory=20, bandwidth=bandwidth)))
        bounds[bandwidth] = {c.name: c.bound for c in by_purpose(attribute(program, times)) if c.macs}
    assert bounds[0.25]["FFN2"] == "DRAM" and bounds[8]["FFN2"] == "array"


def test_ranges_leave_out_macs_of_padding():
    program, _ = compile_workload(Workload(model="reduced", tokens=TOKENS, recipe="w8a8"), preset("tiny4"))
    times = CommandTimes.of_prediction(predict(program))
    ranges = np.array([(0, 6)] * 6 + [(0, 0)] * 2)
    found = {cost.name: cost.macs for cost in attribute(program, times, ranges) if cost.layer == 0}
    assert found["down"] == 6 * HIDDEN * FFN and found["scores"] == 6 * 6 * HIDDEN
