"""Compiled layers, executed by the interpreter, equal the integer model byte for byte."""

import random
from dataclasses import replace

import numpy as np
import pytest

from bertha.compiler.compile import compile_layer
from bertha.compiler.interpret import interpret
from bertha.compiler.predict import predict
from bertha.golden.integer_model import run_layer
from bertha.rtl.config import Config, preset
from bertha.rtl.isa import Opcode
from tests.compiler.layers import chained, random_inputs, random_layer
from tests.compiler.shuffle import run_shuffled

SMALL = Config(array_n=4, scratchpad_bytes=8192, scratchpad_banks=4, row_slots=8)


def compare(layer, config, *, seq, masked=0, seed=0, base=0):
    program = compile_layer(layer, config, seq=seq, base=base)
    x16, ranges = random_inputs(layer, seq, seed=seed, masked=masked)
    expected = run_layer(layer, x16, ranges)
    output = interpret(program, x16=x16, x8=expected["x8"], ranges=ranges)
    assert np.array_equal(output, expected["output16"])
    own = layer.hidden * (4 * layer.hidden + 2 * layer.ffn) * seq + 2 * seq * seq * layer.hidden
    assert program.macs == own
    real = seq - masked
    useful = layer.hidden * (4 * layer.hidden + 2 * layer.ffn) * real + 2 * real * real * layer.hidden
    assert sum(command.macs(ranges) for command in program.commands) == useful
    return program


@pytest.mark.parametrize("name", ["tiny4", "edge8", "edge16", "server32"])
@pytest.mark.parametrize(
    ("seq", "masked", "shape"),
    [
        (20, 3, {}),
        (8, 0, {"duplicates": (0, 0, 0, 0)}),
        (1, 0, {"duplicates": (1, 1, 1, 1)}),
        (37, 5, {"heads": 3, "head_dim": 14, "ffn": 50, "duplicates": (5, 7, 3, 9)}),
        (13, 12, {"heads": 1, "head_dim": 18, "ffn": 33}),
    ],
)
def test_presets(name, seq, masked, shape):
    compare(random_layer(seed=seq, **shape), preset(name), seq=seq, masked=masked)


@pytest.mark.parametrize("seed", range(40))
def test_random_shapes_on_random_accelerators(seed):
    chance = random.Random(seed)
    print(f"seed {seed}")
    n = chance.choice([4, 4, 8, 16])
    config = Config(
        array_n=n,
        scratchpad_bytes=chance.choice({4: [8, 16, 32], 8: [16, 32], 16: [32, 64]}[n]) * 1024,
        scratchpad_banks=4,
        row_slots=chance.choice([16, 32]),
        axi_data_bits=chance.choice([32, 64]),
    )
    heads, head_dim, seq = chance.randint(1, 3), chance.choice([2, 6, 10, 14, 16, 18]), chance.randint(1, 30)
    layer = random_layer(
        seed=seed,
        heads=heads,
        head_dim=head_dim,
        ffn=chance.randint(1, 60),
        duplicates=[chance.randint(0, min(7, heads * head_dim)) for _ in range(4)],
    )
    compare(layer, config, seq=seq, masked=chance.randint(0, seq - 1), seed=seed)


def test_everything_in_blocks_and_context_through_dram():
    seen = {"attention": False, "blocks": False, "spill": False, "late residual": False}
    for kilobytes, seq in ((4, 18), (4, 22), (4, 26), (8, 50)):
        config = SMALL.replace(scratchpad_bytes=1024 * kilobytes)
        layer = random_layer(seed=seq, heads=3, head_dim=6, ffn=14)
        program = compare(layer, config, seq=seq, masked=1)
        plan = program.plan
        assert len(program.scratch) == plan.choice.spill
        _check_regions_are_apart(program)
        seen["attention"] |= len(plan.attention_blocks) > 1
        seen["blocks"] |= len(plan.blocks) > 1
        seen["spill"] |= plan.choice.spill
        seen["late residual"] |= plan.choice.late_residual
    assert all(seen.values()), seen


def _check_regions_are_apart(program):
    """What the host puts into DRAM, the results and the scratch don't share a byte."""
    regions = [(address, len(content)) for address, content in program.pieces]
    regions += [*program.inputs, *program.stores]
    regions.sort()
    for (address, nbytes), (following, _) in zip(regions, regions[1:], strict=False):
        assert address + nbytes <= following
    assert regions[-1][0] + regions[-1][1] <= program.window[1]


@pytest.mark.parametrize("seed", range(8))
def test_no_order_that_semaphores_allow_changes_the_result(seed):
    chance = random.Random(seed)
    config = preset("tiny4") if seed % 2 else SMALL
    layer = random_layer(seed=seed, head_dim=chance.choice([4, 6, 10]), ffn=chance.randint(3, 40))
    seq = chance.randint(5, 24)
    program = compile_layer(layer, config, seq=seq)
    x16, ranges = random_inputs(layer, seq, seed=seed, masked=2)
    expected = run_layer(layer, x16, ranges)
    pieces = program.input_pieces(x16=x16, x8=expected["x8"], ranges=ranges)
    machine = run_shuffled(program, pieces, seed=seed)
    output = machine.read(program.output16.address, program.output16.nbytes(config.array_n))
    assert np.array_equal(program.unpack_output(output), expected["output16"])


def test_one_program_serves_all_sequences_of_its_length():
    layer = random_layer(seed=1)
    program = compile_layer(layer, preset("tiny4"), seq=11, base=1 << 20)
    for seed, masked in ((0, 0), (1, 4), (2, 10)):
        x16, ranges = random_inputs(layer, 11, seed=seed, masked=masked)
        expected = run_layer(layer, x16, ranges)
        output = interpret(program, x16=x16, x8=expected["x8"], ranges=ranges)
        assert np.array_equal(output, expected["output16"])


def test_base_moves_everything():
    program = compare(random_layer(seed=2), preset("edge8"), seq=9, base=0x40000000)
    assert program.window[0] == 0x40000000
    for address, content in program.pieces:
        assert program.window[0] <= address and address + len(content) <= program.window[1]


@pytest.mark.parametrize(
    ("name", "least", "exposed"), [("edge8", 0.999, 2800), ("edge16", 0.994, 5500), ("server32", 0.97, 7200)]
)
def test_minilm_keeps_the_array_busy(name, least, exposed):
    """At S = 128 with no duplicates, so that only the schedule counts."""
    layer = random_layer(seed=4, heads=12, head_dim=32, ffn=1536, duplicates=(0, 0, 0, 0))
    program = compile_layer(layer, preset(name), seq=128)
    prediction = predict(program)
    assert prediction.utilization >= least
    assert not any(command.opcode == Opcode.BARRIER for command in program.commands)
    # The first panels' loads, the last panel's LayerNorm and store, and on server32 a LayerNorm in between.
    assert prediction.cycles - prediction.activity["gemm"]["working"] < exposed


def test_minilm_equals_the_integer_model():
    layer = random_layer(seed=4, heads=12, head_dim=32, ffn=1536, duplicates=(4, 0, 4, 4))
    compare(layer, preset("edge16"), seq=128, masked=7)


def test_duplicates_cost_what_they_add_to_k():
    layer = random_layer(seed=4, heads=12, head_dim=32, ffn=1536, duplicates=(16, 0, 16, 16))
    program = compile_layer(layer, preset("edge16"), seq=128)
    words = 8 * 16 * (72 + 96 + 24)  # of K, in row panels x duplicates x weight panels
    assert predict(program).busy["gemm"] == 933_888 + words


def test_a_wide_value_costs_a_second_pass_of_its_products():
    """P·V of all rows, heads and keys takes twice as long, nothing else longer, and none of it is useful work."""
    shape = {"heads": 12, "head_dim": 32, "ffn": 1536, "duplicates": (0, 0, 0, 0)}
    plain, wide = (
        compile_layer(random_layer(seed=4, **shape, value_wide=value_wide), preset("edge16"), seq=128)
        for value_wide in (False, True)
    )
    words = 12 * 8 * 2 * 128  # heads, row panels, panels of dimensions, keys
    assert predict(wide).busy["gemm"] == predict(plain).busy["gemm"] + words
    assert wide.macs == plain.macs
    (_, narrow), (_, doubled) = (program.plan.buffers["value"] for program in (plain, wide))
    assert doubled == 2 * narrow == 2 * 32 * 128 // 32


def test_minilm_fits_edge8_in_blocks():
    layer = random_layer(seed=5, heads=12, head_dim=32, ffn=1536, duplicates=(4, 0, 4, 4))
    program = compile_layer(layer, preset("edge8"), seq=128)
    assert len(program.plan.blocks) > 1
    assert predict(program).utilization >= 0.97


def test_bert_base_fits_edge16():
    layer = random_layer(seed=6, heads=12, head_dim=64, ffn=3072, duplicates=(4, 0, 4, 4))
    program = compile_layer(layer, preset("edge16"), seq=128)
    assert predict(program).utilization >= 0.98


def test_too_small_a_scratchpad_is_named():
    layer = random_layer(seed=7, heads=12, head_dim=32, ffn=4096)
    message = r"MiniLM \(hidden 384, FFN 4096, 128 tokens\) must fit the scratchpad: .* there are 8192"
    with pytest.raises(ValueError, match=message):
        compile_layer(layer, SMALL.replace(row_slots=16), seq=128, model="MiniLM")


def test_too_few_row_slots_are_named():
    layer = random_layer(seed=7, heads=1, head_dim=64)
    with pytest.raises(ValueError, match="must have 17 row slots at least, there are 8"):
        compile_layer(layer, SMALL, seq=4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"heads": 3}, r"query must have heads \* head_dim = 48 output features, not 32"),
        ({"heads": 32, "head_dim": 1}, "head_dim must be an even number, not 1"),
        (
            {"hidden_residue": np.zeros(64, dtype=bool)},
            "down must duplicate features whose residue is written",
        ),
    ],
)
def test_inconsistent_layers_are_refused(change, message):
    layer = replace(random_layer(seed=8), **change)
    with pytest.raises(ValueError, match=message):
        compile_layer(layer, preset("tiny4"), seq=4)


@pytest.mark.parametrize("linear", ["output", "down"])
def test_what_has_no_inputs_has_no_bias(linear):
    layer = random_layer(
        seed=8, heads=0 if linear == "output" else 2, ffn=0 if linear == "down" else 8, hidden=16
    )
    broken = replace(getattr(layer, linear), bias=np.ones(16, np.int32))
    with pytest.raises(ValueError, match=f"{linear}'s bias must be zero where it has no input features"):
        chained([replace(layer, **{linear: broken})])


def test_a_sequence_has_tokens():
    with pytest.raises(ValueError, match="seq must be at least 1 token, not 0"):
        compile_layer(random_layer(seed=9), preset("tiny4"), seq=0)


def test_inputs_have_the_compiled_shape():
    layer = random_layer(seed=9)
    program = compile_layer(layer, preset("tiny4"), seq=4)
    x16, _ = random_inputs(layer, 4, seed=0)
    x8 = run_layer(layer, x16)["x8"]
    with pytest.raises(ValueError, match=r"must have the shape \[4, 32\], not \[5, 32\]"):
        program.input_pieces(x16=np.zeros((5, 32)), x8=x8)


def saturating_layer(seed):
    """Scores so large that nearly all of them saturate, on both ends."""
    layer = random_layer(seed=seed)
    return replace(layer, score_mult=np.full(2, 65535, np.uint16), score_shift=np.full(2, 4, np.uint8))


@pytest.mark.parametrize("name", ["tiny4", "edge8"])
@pytest.mark.parametrize(("seq", "masked"), [(1, 0), (3, 0), (3, 1), (7, 2), (8, 3)])
def test_masked_and_padding_keys_have_no_part_in_saturated_rows(name, seq, masked):
    """All real scores of some rows are as low as scores can be; the padding key of an odd length isn't one."""
    lowest = highest = 0
    for seed in range(12):
        layer = saturating_layer(seed)
        compare(layer, preset(name), seq=seq, masked=masked, seed=seed)
        x16, ranges = random_inputs(layer, seq, seed=seed, masked=masked)
        expected = run_layer(layer, x16, ranges)
        real = slice(0, seq - masked)
        assert (expected["scores"][:, real, real] >= -32767).all()
        assert (expected["probabilities"][:, :, seq - masked :] == 0).all()
        assert (expected["probabilities"][:, real, real].max(axis=-1) == 255).all()
        lowest += (expected["scores"][:, real, real] == -32767).all(axis=-1).sum()
        highest += (expected["scores"] == 32767).sum()
    assert lowest and highest


@pytest.mark.parametrize("seq", [1, 3, 4, 9])
def test_a_row_that_sees_no_key_has_no_context(seq):
    layer = random_layer(seed=seq)
    compare(layer, preset("tiny4"), seq=seq, masked=seq)
    x16, ranges = random_inputs(layer, seq, seed=0, masked=seq)
    assert not ranges.any()
    expected = run_layer(layer, x16, ranges)
    for name in ("probabilities", "softmax_mult", "softmax_shift", "context"):
        assert not expected[name].any(), name
