"""Compiled models, executed by the interpreter, equal the integer model byte for byte."""

import random
from dataclasses import replace

import numpy as np
import pytest

from bertha.compiler.compile import compile_layer, compile_model
from bertha.compiler.disassemble import disassemble
from bertha.compiler.interpret import interpret
from bertha.golden.integer_model import run_layer, run_model
from bertha.rtl.config import Config, preset
from bertha.rtl.isa import Opcode
from tests.compiler.layers import chained, packed_ranges, random_inputs, random_layer, random_model
from tests.compiler.shuffle import run_shuffled


def compare(model, config, *, tokens, ranges, static=False, key_mask=None, seed=0, base=0):
    program = compile_model(
        model,
        config,
        tokens=tokens,
        ranges=ranges if static else None,
        key_mask=key_mask is not None,
        base=base,
    )
    embedded16, _ = random_inputs(model.layers[0], tokens, seed=seed)
    expected = run_model(model, embedded16, ranges, key_mask)["output16"]
    output = interpret(program, x16=embedded16, ranges=ranges, key_mask=key_mask)
    assert np.array_equal(output, expected)
    return program


def random_config(chance):
    n = chance.choice([4, 4, 8, 16])
    return Config(
        array_n=n,
        scratchpad_bytes=chance.choice({4: [16, 32, 64], 8: [32, 64], 16: [64, 128]}[n]) * 1024,
        scratchpad_banks=4,
        row_slots=chance.choice([16, 32]),
        axi_data_bits=chance.choice([32, 64]),
    )


@pytest.mark.parametrize("name", ["tiny4", "edge8", "edge16", "server32"])
@pytest.mark.parametrize("tokens", [1, 8, 37])
def test_presets(name, tokens):
    model = chained([random_layer(seed=seed, ffn=30 + 10 * seed) for seed in range(3)])
    ranges = packed_ranges(random.Random(tokens), tokens)
    for static in (False, True):
        compare(model, preset(name), tokens=tokens, ranges=ranges, static=static)


@pytest.mark.parametrize("seed", range(60))
def test_random_models_on_random_accelerators(seed):
    print(f"seed {seed}")
    chance = random.Random(seed)
    config, model, tokens = random_config(chance), random_model(chance), chance.randint(1, 40)
    mask = np.array([chance.random() < 0.8 for _ in range(tokens)]) if chance.random() < 0.3 else None
    ranges = packed_ranges(chance, tokens)
    compare(
        model, config, tokens=tokens, ranges=ranges, static=chance.random() < 0.5, key_mask=mask, seed=seed
    )


@pytest.mark.parametrize("seed", range(20))
def test_pruned_models(seed):
    """Layers without heads, neurons, or both, first, last and in between."""
    print(f"seed {seed}")
    chance = random.Random(1000 + seed)
    model, tokens = random_model(chance, pruned=True), chance.randint(1, 30)
    config = chance.choice([preset("tiny4"), preset("edge8")])
    compare(model, config, tokens=tokens, ranges=packed_ranges(chance, tokens), static=chance.random() < 0.5)


@pytest.mark.parametrize("left", [{"heads": 0}, {"ffn": 0}, {"heads": 0, "ffn": 0}])
def test_a_pruned_layer_alone(left):
    layer = random_layer(seed=3, **({"heads": 2, "ffn": 24} | left), hidden=20)
    x16, ranges = random_inputs(layer, 9, seed=3)
    expected = run_layer(layer, x16, ranges)
    assert left.get("heads", 2) or np.array_equal(expected["attention_sum"], x16)
    assert left.get("ffn", 24) or np.array_equal(expected["ffn_sum"], expected["attention_out16"])
    program = compile_layer(layer, preset("tiny4"), seq=9)
    assert np.array_equal(interpret(program, x16=x16, x8=expected["x8"], ranges=ranges), expected["output16"])
    operations = {command.name.split(".")[1] for command in program.commands}
    assert left.get("heads", 2) or not operations & {"query", "key", "value", "scores", "softmax", "context"}
    assert left.get("ffn", 24) or not operations & {"intermediate", "gelu"}


def hard(model, keys, renormalised=True):
    changes = {"attention_keys": keys, "attention_renormalised": renormalised}
    return replace(model, layers=tuple(replace(layer, **changes) for layer in model.layers))


@pytest.mark.parametrize("keys, renormalised", [(1, True), (7, True), (7, False), (20, True)])
def test_hard_attention(keys, renormalised):
    model = chained([random_layer(seed=seed, heads=2, head_dim=8, ffn=24) for seed in range(2)])
    ranges = packed_ranges(random.Random(keys), 21)
    program = compare(hard(model, keys, renormalised), preset("tiny4"), tokens=21, ranges=ranges)
    softmaxes = [command for command in program.commands if command.opcode == Opcode.SOFTMAX]
    assert {(c.get("kept"), c.get("whole_sum")) for c in softmaxes} == {(keys, int(not renormalised))}
    assert f" kept={keys}" in "\n".join(disassemble(program))


def test_as_many_keys_as_there_are_change_no_byte():
    model = chained([random_layer(seed=seed, heads=2, head_dim=8, ffn=24) for seed in range(2)])
    program = compile_model(model, preset("tiny4"), tokens=20)
    everything = compile_model(hard(model, 20), preset("tiny4"), tokens=20)
    assert everything.code == program.code


def test_hard_attention_needs_hardware():
    model = hard(chained([random_layer(seed=1)]), 3)
    config = preset("tiny4").replace(hard_attention=0)
    with pytest.raises(
        ValueError, match="layer0's hard attention needs an accelerator with hard_attention=1"
    ):
        compile_model(model, config, tokens=8)
    compare(model, config, tokens=3, ranges=np.tile((0, 3), (3, 1)))


def test_everything_through_dram():
    """Small scratchpads make all that may happen to a plan happen."""
    seen = set()
    for seed in range(40):
        chance = random.Random(1000 + seed)
        model, tokens = random_model(chance, layers=2), chance.randint(20, 60)
        config = random_config(chance).replace(array_n=4, scratchpad_bytes=1 << 13, row_slots=8)
        try:
            program = compare(model, config, tokens=tokens, ranges=packed_ranges(chance, tokens), seed=seed)
        except ValueError as error:
            assert "must fit the scratchpad" in str(error) or "row slots" in str(error)
            continue
        choice = program.plan.choice
        seen |= {
            name
            for name, yes in (
                ("blocks of operands", choice.x_parts > 1),
                ("blocks of scores", choice.attention_parts > 1),
                ("blocks of the FFN", choice.parts > 1),
                ("context", choice.spill),
                ("late residual", choice.late_residual),
                ("operand", not choice.keeps_operand),
                ("stream", not choice.keeps_stream),
                ("slots", not program.plan.own_slots),
            )
            if yes
        }
    assert len(seen) == 8, seen


@pytest.mark.parametrize("seed", range(8))
def test_no_order_that_semaphores_allow_changes_the_result(seed):
    chance = random.Random(seed)
    model, tokens = random_model(chance), chance.randint(5, 24)
    ranges = packed_ranges(chance, tokens)
    config = preset("tiny4") if seed % 2 else random_config(chance)
    program = compile_model(model, config, tokens=tokens, ranges=ranges if seed % 3 else None)
    embedded16, _ = random_inputs(model.layers[0], tokens, seed=seed)
    machine = run_shuffled(program, program.input_pieces(x16=embedded16, ranges=ranges), seed=seed)
    output = machine.read(program.output16.address, program.output16.nbytes(config.array_n))
    expected = run_model(model, embedded16, ranges)["output16"]
    assert np.array_equal(program.unpack_output(output), expected)


def test_sentences_are_the_same_alone_and_packed():
    model = chained([random_layer(seed=seed) for seed in (5, 6)])
    lengths = [3, 9, 1, 14]
    tokens = sum(lengths) + 2
    embedded16, _ = random_inputs(model.layers[0], tokens, seed=3)
    ranges, start = np.zeros((tokens, 2), dtype=int), 0
    for length in lengths:
        ranges[start : start + length] = (start, start + length)
        start += length
    config = preset("edge8")
    packed = interpret(compile_model(model, config, tokens=tokens), x16=embedded16, ranges=ranges)
    start = 0
    for length in lengths:
        place = slice(start, start + length)
        alone = interpret(compile_model(model, config, tokens=length), x16=embedded16[place])
        assert np.array_equal(packed[place], alone)
        start += length


def test_what_no_row_needs_is_left_out():
    model = chained([random_layer(seed=7)])
    tokens = 64
    ranges = np.repeat(np.arange(0, tokens, 8), 8)[:, None] + np.array([0, 8])
    words = []
    for static in (False, True):
        program = compare(model, preset("edge8"), tokens=tokens, ranges=ranges, static=static)
        scores = [c for c in program.commands if c.opcode == Opcode.GEMM and ".scores." in c.name]
        words.append(sum(command.tiles for command in scores))
    assert words[0] == 8 * words[1]


def test_a_layer_of_wide_operands():
    layer = random_layer(seed=3, hidden=24, wide=(True,) * 4)
    program = compile_layer(layer, preset("edge8"), seq=19)
    x16, _ = random_inputs(layer, 19, seed=3)
    expected = run_layer(layer, x16)
    output = interpret(program, x16=x16, x8=expected["x8"])
    assert np.array_equal(output, expected["output16"])


@pytest.mark.parametrize("name", ["tiny4", "edge8", "edge16", "server32"])
@pytest.mark.parametrize("wide", [(), (1,), (0, 1, 2, 3)], ids=["alone", "context", "everything"])
@pytest.mark.parametrize("tokens", [1, 4, 19])
def test_a_layer_of_a_wide_value(name, wide, tokens):
    """V's planes are in the scratchpad one behind the other, whichever operands are wide beside it."""
    flags = tuple(number in wide for number in range(4))
    layer = random_layer(seed=tokens, hidden=24, wide=flags, head_dim=14, value_wide=True)
    program = compile_layer(layer, preset(name), seq=tokens)
    x16, ranges = random_inputs(layer, tokens, seed=3, masked=tokens // 6)
    expected = run_layer(layer, x16, ranges)
    high, _ = np.split(expected["value"], 2, axis=1)
    assert np.abs(high.astype(int)).max() > 1
    output = interpret(program, x16=x16, x8=expected["x8"], ranges=ranges)
    assert np.array_equal(output, expected["output16"])


@pytest.mark.parametrize("static", [False, True])
def test_a_wide_value_in_every_plan(static):
    """Layers with a wide V before and behind one without, in scratchpads of all sizes that they fit."""
    seen = set()
    for seed in range(18):
        chance = random.Random(2000 + seed)
        hidden = 2 * chance.randint(4, 10)
        layers = [
            random_layer(
                seed=chance.getrandbits(32),
                heads=chance.randint(1, 3),
                head_dim=2 * chance.randint(1, 7),
                ffn=chance.randint(1, 40),
                hidden=hidden,
                wide=[chance.random() < 0.3 for _ in range(4)],
                value_wide=value_wide,
            )
            for value_wide in (True, seed % 3 > 0)
        ]
        kilobytes, tokens = [(4, 12), (4, 26), (8, 20), (8, 45), (32, 33), (128, 4)][seed % 6]
        config = preset("tiny4").replace(scratchpad_bytes=1024 * kilobytes, row_slots=chance.choice([8, 16]))
        try:
            program = compare(
                chained(layers, embedding_norm=seed % 2 == 0),
                config,
                tokens=tokens,
                ranges=packed_ranges(chance, tokens),
                static=static,
                seed=seed,
            )
        except ValueError as error:
            assert "must fit the scratchpad" in str(error) or "row slots" in str(error)
            continue
        choice = program.plan.choice
        seen |= {
            name
            for name, yes in (
                ("one block of all", not choice.spill and choice.x_parts == choice.attention_parts == 1),
                ("blocks of operands", choice.x_parts > 1),
                ("blocks of scores", choice.attention_parts > 1),
                ("context", choice.spill),
                ("slots", not program.plan.own_slots),
                ("panels together", choice.together_lines > 0),
            )
            if yes
        }
    assert len(seen) == 6, seen


def test_useful_work_is_that_of_each_sentence_alone():
    model = chained([random_layer(seed=8, duplicates=(0, 0, 0, 0))] * 2)
    ranges = np.array([(0, 3)] * 3 + [(3, 8)] * 5 + [(0, 0)] * 2)
    program = compile_model(model, preset("edge8"), tokens=10)
    layer = model.layers[0]
    hidden, ffn = layer.hidden, layer.ffn
    own = sum(n * hidden * (4 * hidden + 2 * ffn) + 2 * n * n * hidden for n in (3, 5))
    assert sum(command.macs(ranges) for command in program.commands) == 2 * own


def test_wrong_inputs_are_refused():
    model = chained([random_layer(seed=9)])
    ranges = np.array([(0, 4)] * 4)
    program = compile_model(model, preset("edge8"), tokens=4, ranges=ranges)
    x16, _ = random_inputs(model.layers[0], 4, seed=0)
    with pytest.raises(ValueError, match="the ranges must be those that the program was compiled for"):
        program.input_pieces(x16=x16, ranges=ranges - ranges)
    with pytest.raises(ValueError, match="a key mask needs a program that was compiled with one"):
        program.input_pieces(x16=x16, key_mask=np.ones(4, dtype=bool))
    with pytest.raises(ValueError, match=r"ranges must have the shape \[4, 2\], not \[3, 2\]"):
        program.input_pieces(x16=x16, ranges=ranges[:3])
    with pytest.raises(ValueError, match="ranges must be from 0 to 4, not 0 to 5"):
        compile_model(model, preset("edge8"), tokens=4, ranges=ranges + [[0, 1]])
    odd = replace(model.layers[0], head_dim=15)
    with pytest.raises(ValueError, match="head_dim must be an even number, not 15"):
        compile_layer(odd, preset("edge8"), seq=4)


def test_semaphores_never_count_too_far():
    """Many sentences and a small array: much is posted before anyone needs to take it."""
    model = chained([random_layer(seed=0, duplicates=(0, 0, 0, 0))])
    tokens = 263
    ranges = np.repeat([(0, 100), (100, 164), (164, 263)], [100, 64, 99], axis=0)
    program = compare(model, preset("tiny4"), tokens=tokens, ranges=ranges, static=True)
    assert any(command.name == "full" for command in program.commands)
