"""What programs of a few commands take, counted by hand from the hardware's documents; layers that stand for others."""

import random

import numpy as np
import pytest

from bertha.compiler.compile import compile_layer, compile_model
from bertha.compiler.operations import KINDS
from bertha.compiler.placeholder import OPERANDS, RECIPES, operand_plan, placeholder_model
from bertha.compiler.predict import Timing, default_timing, predict
from bertha.compiler.program import Command, Program
from bertha.models.hard_attention import HardAttention
from bertha.models.shapes import ModelShape
from bertha.quantize import recipes, sensitivity
from bertha.rtl.config import preset
from bertha.rtl.isa import Opcode, semaphore
from tests.compiler.layers import random_layer, random_model

CONFIG = preset("edge16")
SHAPE = ModelShape(hidden=32, head_dim=16, ffn=64, heads=(2,) * 7)


def run(*commands, timing=None):
    """The commands' rows (busy, first, last), and the prediction."""
    program = Program(
        config=CONFIG,
        commands=[Command(opcode=o, fields=f, name=str(n)) for n, (o, f) in enumerate(commands)],
        pieces=[],
        program_address=0,
        window=(0, 1 << 20),
    )
    prediction = predict(program, timing)
    return [
        tuple(int(row[name]) for name in ("busy", "first", "last")) for row in prediction.run.commands
    ], prediction


def load(**fields):
    return Opcode.LOAD, {"lines": 208, "rows": 1, **fields}


def gemm(**fields):
    return Opcode.GEMM, {"k": 400, "count": 2, "columns": 16, "b_addr": 1001, "c_addr": 2000, **fields}


def test_transfers_take_their_beats_and_the_latency_once():
    """208 lines of 32 bytes are 832 beats in 13 bursts, and the second command's follow without a gap."""
    (first, second), prediction = run(load(), load())
    assert first[0] == second[0] == 832
    assert first[2] - first[1] == 831
    assert second[1] == first[2] + 1
    assert 2 * 100 < first[1] < 2 * 100 + 40  # fetched, then loaded: twice the latency
    assert prediction.busy == {"load": 1664}
    assert prediction.bytes_read == 2 * 208 * 32 + 2 * 64


def test_a_memory_slower_than_the_bus_stretches_transfers():
    """2 bytes a cycle on a bus of 8: a beat every 4 cycles, but for the second, which an idle memory has saved up for."""
    (first,), _ = run(load(), timing=Timing(bandwidth=2))
    assert first[2] - first[1] == 1 + 4 * 830
    (first,), _ = run(load(), timing=Timing(bandwidth=5))
    assert first[2] - first[1] == pytest.approx(831 * 8 / 5, abs=2)


def test_reads_and_writes_share_the_bandwidth():
    store = (Opcode.STORE, {"lines": 208, "rows": 1, "dram_addr": 1 << 16})
    rows, both = run(load(), store, timing=Timing(bandwidth=2))
    assert both.cycles > 2 * 4 * 832
    assert run(load(), store, timing=Timing(bandwidth=16))[1].cycles < 832 + 500
    assert both.bytes_written == 208 * 32


def test_outstanding_bursts_bound_a_distant_memory():
    """8 bursts in flight, each of 64 beats: of 13 bursts the ninth waits for the first."""
    (first,), _ = run(load(), timing=Timing(memory=10_000))
    assert 10_000 < first[2] - first[1] < 10_000 + 832 + 100


def test_tiles_follow_one_another():
    rows, prediction = run(gemm(), gemm())
    assert rows[0][0] == rows[1][0] == 800
    assert rows[0][2] - rows[0][1] == 799
    assert rows[1][1] == rows[0][2] + 1
    assert prediction.activity["gemm"]["working"] == 1600


def test_a_small_k_takes_as_long_as_the_drain():
    """Passes end N cycles apart."""
    rows, _ = run(gemm(k=2, count=3))
    assert rows[0][0] == 6
    assert rows[0][2] - rows[0][1] == 1 + 2 * 16


def test_a_wide_operand_takes_two_passes():
    assert run(gemm(wide=1, low_offset=400))[0][0][0] == 1600


def test_waits_are_honoured_and_told():
    rows, prediction = run(load(post1=semaphore(0)), gemm(wait0=semaphore(0)))
    assert 0 < rows[1][1] - rows[0][2] < 40
    assert prediction.activity["gemm"]["wait_load"] > 800


def test_full_queues_hold_up_the_dispatcher():
    commands = [gemm(count=1)] * (CONFIG.queue_depth + 2)
    assert (
        run(*commands, load())[0][-1][1] >= 400
    )  # until the first GEMM is over, there's no room for the last one


def test_two_streams_of_a_bank_are_apart_after_the_first_conflict():
    """A and B that begin in one bank cost a few cycles once, not one a line."""
    apart, together = (run(gemm(b_addr=b))[1].cycles for b in (1001, 1000))
    assert apart <= together < apart + 10


def test_activities_add_up_to_the_cycles():
    program = compile_model(random_model(random.Random(5)), preset("tiny4"), tokens=19, to_run=False)
    prediction = predict(program, Timing(memory=77, bandwidth=3))
    for engine, activity in prediction.activity.items():
        assert sum(activity.values()) == prediction.cycles
        for layer in prediction.layers:
            assert sum(layer.activity[engine].values()) == layer.cycles
        tail = prediction.run.tail[("load", "gemm", "vector", "store").index(engine)].sum()
        by_kind = sum(sum(kind.activity.values()) for kind in prediction.kinds if kind.engine == engine)
        assert by_kind + tail == prediction.cycles
        assert prediction.busy.get(engine, 0) == sum(k.busy for k in prediction.kinds if k.engine == engine)
    assert sum(layer.cycles for layer in prediction.layers) == prediction.cycles
    assert sum(layer.macs for layer in prediction.layers) == prediction.macs == program.macs
    assert {kind.name for kind in prediction.kinds} == set(KINDS)


def test_a_slower_memory_takes_longer():
    program = compile_layer(random_layer(seed=0), preset("edge8"), seq=20)
    times = [predict(program, Timing(memory=latency)).cycles for latency in (10, 100, 1000)]
    assert times == sorted(set(times))


@pytest.mark.parametrize("tokens", [1, 40])
def test_three_layers_stand_for_seven(tokens):
    plan = operand_plan(SHAPE, "mixed")
    whole, part = (
        compile_model(
            placeholder_model(SHAPE, plan, layers=layers), preset("tiny4"), tokens=tokens, to_run=False
        )
        for layers in (7, 3)
    )
    expected, found = predict(whole), predict(part, layers=7)
    assert found.cycles == pytest.approx(expected.cycles, rel=1e-3)
    assert found.macs == expected.macs
    assert found.bytes_read == pytest.approx(expected.bytes_read, rel=1e-2)
    for kind, other in zip(found.kinds, expected.kinds, strict=True):
        assert (kind.name, kind.engine, kind.macs) == (other.name, other.engine, other.macs)
        assert kind.busy == pytest.approx(other.busy, rel=1e-2)
    for activity in found.activity.values():
        assert sum(activity.values()) == found.cycles
    assert [(layer.name, layer.count) for layer in found.layers] == [
        ("layer 0", 1),
        ("layers 1 to 5", 5),
        ("layer 6", 1),
    ]
    assert sum(layer.count * layer.cycles for layer in found.layers) == found.cycles


def test_two_layers_stand_for_no_others():
    model = placeholder_model(SHAPE, operand_plan(SHAPE, "w8a8"), layers=2)
    program = compile_model(model, preset("tiny4"), tokens=4, to_run=False)
    with pytest.raises(ValueError, match="2 layers can't stand for 7"):
        predict(program, layers=7)


def test_a_program_for_predictions_has_the_same_commands():
    model = random_model(random.Random(8))
    whole, light = (
        compile_model(model, preset("tiny4"), tokens=11, to_run=to_run) for to_run in (True, False)
    )
    assert light.code == whole.code
    assert not light.pieces


def test_plans_of_operands():
    assert RECIPES == recipes.RECIPES
    assert OPERANDS == sensitivity.OPERANDS
    base = ModelShape(hidden=768, head_dim=64, ffn=3072, heads=(12,))
    plans = {recipe: operand_plan(base, recipe) for recipe in RECIPES}
    assert plans["w8a8"] == dict.fromkeys((*OPERANDS, "value"), 0)
    assert plans["a16"] == dict.fromkeys((*OPERANDS, "value"), "wide")
    assert plans["w8a8-split"]["value"] == plans["mixed"]["value"] == "wide"
    # What each costs of the linear layers' cycles, against what the quantiser may spend.
    macs = np.array([3 * 768 * 768, 768 * 768, 768 * 3072, 768 * 3072])
    channels = np.array([768, 768, 768, 3072])
    for recipe in ("w8a8-split", "mixed"):
        extra = [
            1 if plans[recipe][name] == "wide" else plans[recipe][name] / c
            for name, c in zip(OPERANDS, channels)
        ]
        cost = (macs * extra).sum() / macs.sum()
        assert 0.85 * recipes.BUDGETS[recipe] <= cost <= recipes.BUDGETS[recipe]


def minilm_layers(*, heads=12, ffn=1536, keys=0):
    """Three of MiniLM's layers on edge16 at 128 tokens, `w8a8`, with some of its heads and neurons."""
    shape = ModelShape(hidden=384, head_dim=32, ffn=ffn, heads=(heads,) * 3)
    hard = HardAttention((keys,) * 3)
    model = placeholder_model(shape, operand_plan(shape, "w8a8"), hard_attention=hard)
    program = compile_model(model, preset("edge16"), tokens=128, to_run=False)
    return predict(program, default_timing(program.config))


def test_hard_attention_hides_under_the_array():
    plain, hard = minilm_layers(), minilm_layers(keys=30)
    print(f"{plain.cycles} cycles, {hard.cycles} with hard attention in every layer")
    assert plain.cycles < hard.cycles <= 1.005 * plain.cycles


def test_a_third_of_heads_and_neurons_keeps_the_array_busy():
    third = minilm_layers(heads=4, ffn=512)
    print(f"{third.cycles} cycles, utilisation {third.utilization:.4f}")
    assert third.utilization >= 0.98


def test_narrow_heads_scores_dont_wait_for_their_drain():
    """A head as wide as the array: its scores come as fast as a line a cycle is written, if nothing comes in between."""
    shape = ModelShape(hidden=64, head_dim=8, ffn=64, heads=(8,) * 2)
    model = placeholder_model(shape, operand_plan(shape, "w8a8"))
    config = preset("edge8")
    prediction = predict(compile_model(model, config, tokens=64, to_run=False), default_timing(config))
    (scores,) = (kind for kind in prediction.kinds if (kind.name, kind.engine) == ("scores", "gemm"))
    assert scores.activity.get("draining", 0) < 0.2 * scores.busy  # 0.43 if nothing does
