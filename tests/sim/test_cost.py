"""Cost by layer and by kind of operation, from commands and a trace made up, and from a compiled program."""

from types import SimpleNamespace

import numpy as np
import pytest

from bertha.compiler.compile import compile_model
from bertha.compiler.program import Command, Work
from bertha.rtl.config import preset
from bertha.rtl.isa import Engine, Opcode
from bertha.sim.cost import KINDS, KindCost, by_kind, by_layer, kind_of, layer_of
from bertha.sim.memory import TRACE_ENGINES, Trace
from tests.compiler.layers import chained, random_layer

RANGES = np.array([(0, 4)] * 4 + [(0, 0)])


def gemm(name, *work):
    return Command(opcode=Opcode.GEMM, fields={"count": 1}, name=name, work=work)


COMMANDS = [
    Command(opcode=Opcode.LOAD, fields={}, name="layer0.embedding.panel0", dram_bytes=64),
    gemm("layer0.embedding_moments"),
    Command(opcode=Opcode.LAYERNORM, fields={}, name="layer0.embedding_norm"),
    Command(opcode=Opcode.LOAD, fields={}, name="layer0.weights.query.panel0", dram_bytes=32),
    gemm("layer0.query.head0", Work(10, range(5))),
    gemm("layer0.scores.head0", Work(2, range(5), range(5))),
    Command(opcode=Opcode.LAYERNORM, fields={}, name="layer0.output_norm"),
    gemm("layer1.query.head0", Work(10, range(5))),
    Command(opcode=Opcode.STORE, fields={}, name="layer1.output.panel0", dram_bytes=16),
]


def traced(*spans):
    """Rows by engine of (busy, first, last) of each command."""
    trace = {engine: np.zeros(len(COMMANDS), dtype=Trace.ROW) for engine in TRACE_ENGINES}
    for index, (command, span) in enumerate(zip(COMMANDS, spans, strict=True)):
        trace[command.engine.name.lower()][index] = span
    return trace


RUN = SimpleNamespace(program=SimpleNamespace(commands=COMMANDS, config=preset("tiny4")), ranges=RANGES)
OUTCOME = SimpleNamespace(
    cycles=120,
    trace=traced(
        (8, 1, 9),
        (2, 10, 11),
        (6, 12, 19),
        (4, 10, 14),
        (20, 20, 39),
        (20, 40, 59),
        (9, 60, 70),
        (30, 62, 95),
        (5, 96, 110),
    ),
)


def test_layers_cycles_add_up():
    """Each lasts from its first tile to that of the next one; what the vector engine does meanwhile is in `end`."""
    costs = by_layer([RUN, RUN], [OUTCOME, OUTCOME])
    assert [(cost.name, cost.index, cost.cycles) for cost in costs] == [
        ("embedding", None, 2 * 20),
        ("layer 0", 0, 2 * 42),
        ("layer 1", 1, 2 * 58),
    ]
    assert [(cost.start, cost.end) for cost in costs] == [(10, 19), (20, 70), (62, 95)]
    assert [cost.macs for cost in costs] == [0, 2 * (4 * 10 + 4 * 4 * 2), 2 * 4 * 10]
    assert costs[1].utilization == 2 * 72 / (16 * 2 * 42)
    assert sum(cost.cycles for cost in costs) == 2 * OUTCOME.cycles


def test_kinds_of_all_layers():
    found = {(cost.name, cost.engine): cost for cost in by_kind([RUN, RUN], [OUTCOME, OUTCOME])}
    assert found["projections", "gemm"] == KindCost(
        name="projections", engine="gemm", busy_cycles=100, macs=160, dram_bytes=0, commands=4
    )
    assert found["scores", "gemm"].macs == 64
    assert found["embedding", "vector"].busy_cycles == 12
    assert found["weights (DMA)", "load"].dram_bytes == 64
    assert found["other DMA", "load"].dram_bytes == 128
    assert found["other DMA", "store"].dram_bytes == 32
    assert [key for key, _ in found] == sorted((key for key, _ in found), key=KINDS.index)


def test_layers_of_operations():
    assert layer_of("layer12.down") == 12
    for name in ("embedding_norm", "embedding_moments", "embedding.panel3", "input_quantize"):
        assert layer_of(f"layer0.{name}") is None


@pytest.mark.parametrize("embedding_norm", [False, True])
def test_every_operation_of_a_program_has_a_kind(embedding_norm):
    """What the compiler writes is known here, small scratchpads and wide operands included."""
    layers = [random_layer(seed=1, wide=(True, False, True, False)), random_layer(seed=2)]
    model = chained(layers, embedding_norm=embedding_norm)
    small = preset("tiny4").replace(scratchpad_bytes=1 << 13, row_slots=16)
    seen = set()
    for config, tokens in ((preset("edge8"), 20), (small, 40)):
        program = compile_model(model, config, tokens=tokens, key_mask=True)
        seen |= {kind_of(command) for command in program.commands if command.engine != Engine.SEQUENCER}
    assert seen == set(KINDS)
