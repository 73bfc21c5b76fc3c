"""Programs that do apart from the drain what the drain does: the same bytes, or those of an integer model with the difference."""

import functools
import random

import numpy as np
import pytest

from bertha.compiler.ablations import OPTIONS, Ablations, parse_ablations
from bertha.compiler.attribution import CommandTimes, attribute
from bertha.compiler.compile import compile_model
from bertha.compiler.interpret import interpret
from bertha.compiler.operations import PURPOSES, is_of_layer, operation_of, purpose_of
from bertha.compiler.predict import default_timing, predict
from bertha.errors import UserError
from bertha.golden import integer_model
from bertha.golden.units import WIDE_MOST, combine_wide, requantise, saturate
from bertha.rtl.config import preset
from bertha.rtl.isa import Opcode, Statistics
from tests.compiler.layers import packed_ranges, random_inputs, random_model

SINGLE = [f"{name}={value}" for name, values in OPTIONS.items() for value in values[1:]]


def case(seed, **options):
    """A random model with its inputs, ranges and key mask."""
    chance = random.Random(seed)
    model, tokens = random_model(chance, layers=2, **options), chance.randint(1, 25)
    ranges = packed_ranges(chance, tokens)
    mask = np.array([chance.random() < 0.8 for _ in range(tokens)]) if seed % 2 else None
    x16, _ = random_inputs(model.layers[0], tokens, seed=seed)
    return model, x16, ranges, mask


def run(model, x16, ranges, mask, ablations, config=None):
    program = compile_model(
        model,
        config or preset("tiny4"),
        tokens=len(x16),
        key_mask=mask is not None,
        ablations=parse_ablations(ablations),
    )
    return program, interpret(program, x16=x16, ranges=ranges, key_mask=mask)


def divided_early(layer, query, key, value, visible):
    """`integer_model._attend` with P normalised before P·V: 128 · P / sum, rounded and saturated to int8."""
    found = deferred(layer, query, key, value, visible)
    shift = np.maximum(found["softmax_shift"].astype(int) - 7, 0)
    normalised = saturate(
        requantise(found["probabilities"], found["softmax_mult"][..., None], shift[..., None]), 8
    )
    planes = [
        plane.reshape(*plane.shape[:2], layer.heads, -1).swapaxes(1, 2)
        for plane in np.split(value, 1 + layer.value_wide, axis=-1)
    ]
    sums = [normalised @ plane for plane in planes]
    accumulator = combine_wide(*sums) if layer.value_wide else sums[0]
    gain = layer.context_gain.astype(int)[:, None, None]
    context = requantise(accumulator, 1, 7 - gain)
    return {**found, "context": context.swapaxes(1, 2).reshape(query.shape)}


deferred = integer_model._attend


@pytest.fixture(scope="module")
def known():
    """A case, its program, and its output in integers. None of its sums is more than planes hold (`WIDE_MOST`)."""
    inputs = case(9)
    program = compile_model(inputs[0], preset("tiny4"), tokens=len(inputs[1]), key_mask=True)
    return inputs, program, integer_model.run_model(*inputs)["output16"]


@pytest.mark.parametrize("ablations", [text for text in SINGLE if text != "division=pass"])
def test_each_has_the_same_bytes(known, ablations):
    inputs, default, expected = known
    program, output = run(*inputs, ablations)
    assert np.array_equal(output, expected)
    assert program.code != default.code
    assert program.macs == default.macs


def test_division_before_the_product(monkeypatch):
    """P of 7 bits: other bytes than with deferred division, those of an integer model that has it so."""
    seen = set()
    for seed in (3, 4):
        model, *inputs = case(seed)
        plain = integer_model.run_model(model, *inputs)["output16"]
        monkeypatch.setattr(integer_model, "_attend", divided_early)
        expected = integer_model.run_model(model, *inputs)["output16"]
        monkeypatch.undo()
        _, output = run(model, *inputs, "division=pass")
        assert np.array_equal(output, expected)
        assert not np.array_equal(output, plain)
        seen |= {layer.value_wide for layer in model.layers}
    assert seen == {False, True}


def test_planes_hold_a_little_less(monkeypatch):
    """Where a sum comes within 128 of saturation, a pass of its own takes it as 32,639, and differs by nothing else."""
    model, *inputs = case(5)
    plain = integer_model.run_model(model, *inputs)["output16"]

    def add_linear(x8, linear, residual, wide=False, tally=None):
        product = integer_model._linear(x8.astype(np.int64), linear, wide)
        return saturate(np.minimum(product, WIDE_MOST) + residual, 16)

    monkeypatch.setattr(integer_model, "add_linear", add_linear)
    expected = integer_model.run_model(model, *inputs)["output16"]
    assert not np.array_equal(expected, plain)
    for ablations in ("residual=pass", "residual=dram"):
        _, output = run(model, *inputs, ablations)
        assert np.array_equal(output, expected)


@pytest.mark.parametrize("seed", range(4))
def test_random_combinations_on_small_accelerators(seed, monkeypatch):
    print(f"seed {seed}")
    chance = random.Random(seed)
    options = {name: chance.choice(values) for name, values in OPTIONS.items()}
    if options["weights"] == "panel":
        options["operand"] = "kept"
    kilobytes = chance.choice([16, 32, 64])
    config = preset("tiny4").replace(scratchpad_bytes=kilobytes * 1024, row_slots=chance.choice([16, 64]))
    model, *inputs = case(2 * seed)
    if options["division"] == "pass":
        monkeypatch.setattr(integer_model, "_attend", divided_early)
    _, output = run(model, *inputs, str(Ablations(**options)), config)
    assert np.array_equal(output, integer_model.run_model(model, *inputs)["output16"])


def test_what_is_in_the_program():
    """The drain's fields have gone, the passes are there, and DRAM is asked for as often as it says."""
    model, *_ = case(3)

    @functools.cache
    def commands(ablations):
        options = parse_ablations(ablations)
        return compile_model(model, preset("tiny4"), tokens=11, to_run=False, ablations=options).commands

    def gemms(ablations, *fields):
        found = [c for c in commands(ablations) if c.opcode == Opcode.GEMM and all(map(c.get, fields))]
        return [command for command in found if "embedding" not in command.name]

    assert not any(command.work for command in gemms("gelu=pass", "piecewise"))
    assert not any(command.work for command in gemms("residual=pass", "residual"))
    for name, kind in (("maximum", Statistics.MAX), ("moments", Statistics.MOMENTS)):
        with_kind = [c for c in gemms(f"{name}=pass", "statistics") if c.get("statistics") == kind]
        assert with_kind and not any(command.work for command in with_kind)
    assert not any(
        command.get("row_factor") for command in gemms("division=pass") if "context" in command.name
    )

    def read(ablations):
        return sum(c.dram_bytes for c in commands(ablations) if c.opcode == Opcode.LOAD)

    for name in ("gelu", "residual", "requantisation", "maximum", "moments"):
        assert read(f"{name}=dram") > read(f"{name}=pass") >= read("")
    operands = [read(f"operand={value}") for value in OPTIONS["operand"]]
    assert operands == sorted(set(operands))
    assert read("weights=panel") > 2 * read("")


@pytest.mark.parametrize("ablations", SINGLE)
def test_every_command_is_for_something(ablations):
    model, *_ = case(3)
    program = compile_model(
        model, preset("tiny4"), tokens=11, to_run=False, ablations=parse_ablations(ablations)
    )
    commands = [command for command in program.commands if is_of_layer(command)]
    assert {purpose_of(operation_of(command)) for command in commands} <= set(PURPOSES)
    prediction = predict(program, default_timing(program.config))
    costs = attribute(program, CommandTimes.of_prediction(prediction))
    assert sum(cost.cycles for cost in costs) == prediction.cycles


def test_as_text():
    text = "gelu=pass+moments=dram"
    assert str(parse_ablations(text)) == text
    assert parse_ablations("") == Ablations() and str(Ablations(gelu="drain")) == ""
    for wrong, sentence in (
        ("gelu=fast", "gelu must be one of drain, pass, dram, not 'fast'"),
        ("relu=pass", "must be one of gelu, .* once, not 'relu'"),
        ("gelu=pass+gelu=dram", "once, not 'gelu'"),
        ("weights=panel+operand=head", "weights=panel must go with operand=kept"),
    ):
        with pytest.raises(UserError, match=sentence):
            parse_ablations(wrong)
