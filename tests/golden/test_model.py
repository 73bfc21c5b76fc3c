"""Whole models in integers: packing, padding, wide operands, files, and what is refused."""

import dataclasses

import numpy as np
import pytest

from bertha.golden import integer_model, units
from bertha.golden.model import load_model_file, save_model
from tests.golden.models import OPERANDS, random_model, random_sums

MIXED = ((0, "projections"), (0, "down"), (1, "output"), (1, "intermediate"))
ALL = tuple((layer, name) for layer in range(2) for name in OPERANDS)
VALUES = ((0, "value"), (1, "value"), (1, "output"))


def packed(parts, padding, rng):
    """Sentences one after another with random padding behind, and each row's range of keys."""
    rows = np.concatenate(
        [*parts, rng.integers(-32768, 32768, (padding, parts[0].shape[1])).astype(np.int16)]
    )
    ranges = np.zeros((len(rows), 2), dtype=np.int64)
    first = 0
    for part in parts:
        ranges[first : first + len(part)] = first, first + len(part)
        first += len(part)
    return rows, ranges


@pytest.mark.parametrize("embedding", [True, False])
@pytest.mark.parametrize(
    "wide", [(), MIXED, ALL, VALUES, ALL + VALUES], ids=["int8", "mixed", "wide", "values", "everything"]
)
def test_packed_and_alone_are_equal(wide, embedding):
    model = random_model(seed=1, wide=wide, embedding=embedding)
    rng = np.random.default_rng(2)
    parts = [random_sums(model, tokens, rng) for tokens in (3, 1, 7, 3, 12)]
    rows, ranges = packed(parts, 5, rng)
    together = integer_model.run_model(model, rows, ranges)["output16"]
    alone = [integer_model.run_model(model, part)["output16"] for part in parts]
    assert np.array_equal(together[:26], np.concatenate(alone))
    assert len({part.tobytes() for part in alone}) == 5
    for fast, right in zip(integer_model.run_sentences(model, parts), alone, strict=True):
        assert fast.dtype == np.int16 and np.array_equal(fast, right)


@pytest.mark.parametrize("scores", [1, 40])
def test_sentences_of_equal_length_in_any_grouping(monkeypatch, scores):
    model = random_model(seed=3, wide=MIXED)
    rng = np.random.default_rng(4)
    parts = [random_sums(model, tokens, rng) for tokens in (2, 3, 2, 2, 3, 2, 2)]
    right = integer_model.run_sentences(model, parts)
    monkeypatch.setattr(integer_model, "SCORES", scores)
    monkeypatch.setattr(integer_model, "ROWS", 3)
    for one, other in zip(integer_model.run_sentences(model, parts), right, strict=True):
        assert np.array_equal(one, other)


def test_no_sentences():
    assert integer_model.run_sentences(random_model(seed=0), []) == []


def test_a_range_is_a_mask_of_each_row():
    model = random_model(seed=5)
    rng = np.random.default_rng(6)
    rows = random_sums(model, 9, rng)
    causal = np.stack([np.zeros(9, int), np.arange(1, 10)], axis=1)
    result = integer_model.run_layer(model.layers[0], rows, causal)
    assert np.all(result["scores"][:, ~np.tri(9, dtype=bool)] == units.MASKED_SCORE)
    for last in (1, 4, 9):  # the last row of the first tokens sees what it sees alone
        alone = integer_model.run_layer(model.layers[0], rows[:last])
        assert np.array_equal(result["output16"][last - 1], alone["output16"][-1])
    mask = np.arange(9) % 3 != 1
    both = integer_model.run_layer(model.layers[0], rows, causal, mask)
    assert np.all(both["scores"][:, :, ~mask] == units.MASKED_SCORE)
    everything = integer_model.run_layer(model.layers[0], rows, [[0, 9]] * 9, np.ones(9))
    assert np.array_equal(everything["output16"], integer_model.run_layer(model.layers[0], rows)["output16"])


def test_rows_without_keys_have_no_context():
    model = random_model(seed=7, wide=ALL)
    rows = random_sums(model, 4, np.random.default_rng(8))
    result = integer_model.run_layer(model.layers[0], rows, [[0, 2], [0, 2], [0, 0], [3, 2]])
    assert result["context"][:2].any() and not result["context"][2:].any()
    assert not result["softmax_mult"][:, 2:].any()


def plain_linear(planes, linear):
    """int16 results of a wide operand one by one, in Python's integers."""
    high, low = np.split(planes.astype(int), 2, axis=1)
    results = np.empty((len(planes), len(linear.weight)), dtype=np.int64)
    for row, column in np.ndindex(results.shape):
        weights = linear.weight[column].tolist()
        high_sum = sum(a * w for a, w in zip(high[row].tolist(), weights, strict=True))
        low_sum = sum(a * w for a, w in zip(low[row].tolist(), weights, strict=True))
        total = 16 * high_sum + (low_sum + 8 >> 4) + int(linear.bias[column])
        shift = int(linear.shift[column])
        scaled = (total * int(linear.mult[column]) + (1 << shift >> 1)) >> shift
        results[row, column] = max(-32768, min(32767, scaled))
    return results


def test_wide_operands_against_plain_python():
    model = random_model(seed=9, wide=ALL)
    layer = model.layers[0]
    result = integer_model.run_layer(layer, random_sums(model, 5, np.random.default_rng(10)))
    assert result["x8"].shape == (5, 48) and result["context"].shape == (5, 24)
    assert result["attention_out8"].shape == (5, 48) and result["hidden"].shape == (5, 40)
    query = units.round_half_up(plain_linear(result["x8"], layer.query), layer.query.post_shift)
    assert np.array_equal(result["query"], np.clip(query, -128, 127))
    inner = units.piecewise(
        plain_linear(result["attention_out8"], layer.intermediate), layer.gelu_base, layer.gelu_slope
    )
    kept = units.round_half_up(inner, layer.intermediate.post_shift)
    high, low = np.split(result["hidden"].astype(int), 2, axis=1)
    assert np.array_equal(256 * high + low, np.minimum(kept, 32639))
    total = plain_linear(result["hidden"], layer.down) + result["attention_out16"]
    assert np.array_equal(result["ffn_sum"], np.clip(total, -32768, 32767))
    high, low = np.split(result["context"].astype(int), 2, axis=1)
    exact = result["probabilities"][1] / result["probabilities"][1].sum(axis=1, keepdims=True)
    value = np.clip(exact @ result["value"][:, 6:] * 2.0 ** layer.context_gain[1], -32768, 32639)
    # The row's factor has 16 bits.
    assert np.abs((256 * high + low)[:, 6:] - value).max() <= 0.51 + np.abs(value).max() / 30000


def plain_context(layer, value, result):
    """int16 context from P, the row factors and V as whole integers, in Python's integers."""
    context = np.empty(value.shape, dtype=np.int64)
    for row, feature in np.ndindex(context.shape):
        head = feature // layer.head_dim
        probabilities = result["probabilities"][head, row].tolist()
        total = sum(p * v for p, v in zip(probabilities, value[:, feature].tolist(), strict=True))
        shift = max(int(result["softmax_shift"][head, row]) - int(layer.context_gain[head]), 0)
        scaled = (total + 8 >> 4) * int(result["softmax_mult"][head, row])
        context[row, feature] = max(-32768, min(32767, scaled + (1 << shift >> 1) >> shift))
    return context


@pytest.mark.parametrize("others", [(), ((0, "output"),), ALL], ids=["alone", "context", "everything"])
def test_a_wide_value_against_plain_python(others):
    """V is what its linear layer gives, up to 32639, and context P·V divided by the sums of P."""
    model = random_model(seed=9, wide=((0, "value"), *others))
    layer = model.layers[0]
    rows = random_sums(model, 7, np.random.default_rng(10))
    result = integer_model.run_layer(layer, rows, [[0, 4]] * 4 + [[4, 6]] * 2 + [[0, 0]])
    assert result["value"].dtype == np.int8 and result["value"].shape == (7, 24)
    high, low = np.split(result["value"].astype(int), 2, axis=1)
    value = 256 * high + low
    if layer.input_quantize.wide:
        exact = plain_linear(result["x8"], layer.value)
    else:
        total = (
            result["x8"].astype(object)
            @ layer.value.weight.T.astype(object)
            * layer.value.mult.astype(object)
        )
        shift = layer.value.shift.astype(object)
        exact = np.clip((total + 2 ** (shift - 1)) // 2**shift, -32768, 32767).astype(int)
    assert np.array_equal(value, np.minimum(exact, 32639))
    assert np.abs(value).max() > 3 * 128

    context = plain_context(layer, value, result)
    assert context[:6].any(axis=1).all() and not context[6].any()
    if layer.context_wide:
        high, low = np.split(result["context"].astype(int), 2, axis=1)
        assert np.array_equal(256 * high + low, np.minimum(context, 32639))
    else:
        cut = (context - np.clip(context, -128, 127))[:, layer.context_residue]
        expected = np.concatenate([np.clip(context, -128, 127), np.clip(cut, -128, 127)], axis=1)
        assert np.array_equal(result["context"], expected)
    # What it is for: a row's mean of V, in units of 16 / 2**gain of V's.
    mean = result["probabilities"][1] / np.maximum(result["probabilities"][1].sum(axis=1, keepdims=True), 1)
    wanted = np.clip(mean @ value[:, 6:] * 2.0 ** (layer.context_gain[1] - 4.0), -32768, 32767)
    assert np.abs(context[:, 6:] - wanted).max() <= 0.51 + np.abs(wanted).max() / 30000


def test_bound_of_a_wide_values_products_is_reached():
    """The largest program of all just keeps it within 32 bits."""
    layer = random_model(seed=11, wide=((0, "value"),)).layers[0]
    for tokens in (1, 16, 4096):
        bound = integer_model.accumulator_bounds(layer, tokens)["context"]
        products = [255 * -128] * tokens
        assert bound == -(16 * sum(products) + (sum(products) + 8 >> 4))
        assert bound == abs(int(units.combine_wide(sum(products), sum(products))))
    assert bound < 2**31 <= integer_model.accumulator_bounds(layer, 4097)["context"]
    assert integer_model.accumulator_bounds(random_model(seed=11).layers[0], 16)["context"] == 16 * 255 * 128


def test_bounds_of_wide_accumulators_hold():
    model = random_model(seed=11, wide=ALL)
    layer = model.layers[0]
    bounds = integer_model.accumulator_bounds(layer, 16)
    for name, planes in (("intermediate", 24), ("down", 20)):
        linear = getattr(layer, name)
        weight = linear.weight.astype(int)
        best = 0
        for row, bias in zip(weight, linear.bias.tolist()):
            for sign in (1, -1):
                extreme = np.where(sign * row > 0, 127, -128)
                total = units.combine_wide(extreme @ row, extreme @ row)
                best = max(best, abs(int(total) + bias))
        assert weight.shape[1] == planes and 0.98 * bounds[name] < best <= bounds[name]


def test_saturations_are_counted():
    model = random_model(seed=12, wide=MIXED)
    rng = np.random.default_rng(13)
    parts = [random_sums(model, tokens, rng) for tokens in (4, 6)]
    counts = {}
    results = integer_model.run_sentences(model, parts, counts)
    assert all(np.array_equal(a, b) for a, b in zip(results, integer_model.run_sentences(model, parts)))
    assert set(counts) >= {"embedding16", "layer 0: x8", "layer 1: hidden", "layer 1: output16"}
    layer = model.layers[1]
    right = 0
    for part in parts:
        x16 = integer_model.run_model(model, part)["layers"][1]["ffn_sum"]
        y16 = units.layernorm(
            x16, layer.output_norm.gamma, layer.output_norm.beta, 13, layer.output_norm.epsilon
        )
        right += np.count_nonzero((y16 == 32767) | (y16 == -32768))
    assert counts["layer 1: output16"] == right
    integer_model.run_sentences(model, parts, counts)
    assert counts["layer 1: output16"] == 2 * right and sum(counts.values()) > 0


@pytest.mark.parametrize("embedding", [True, False])
def test_saved_model_is_the_same(tmp_path, embedding):
    model = random_model(seed=14, wide=MIXED + VALUES, embedding=embedding)
    save_model(tmp_path / "sub" / "model.npz", model)
    restored = load_model_file(tmp_path / "sub" / "model.npz")
    compare(model, restored)
    for layer, other in zip(model.layers, restored.layers, strict=True):
        compare(layer, other)


def compare(one, other):
    for field in dataclasses.fields(one):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if dataclasses.is_dataclass(a):
            compare(a, b)
        elif field.name != "layers":
            assert type(a) is type(b) and np.array_equal(a, b) and np.asarray(a).dtype == np.asarray(b).dtype


@pytest.mark.parametrize(
    "missing", ["layers", "layer1.query.weight", "embedding_norm.mult", "embedding_scale"]
)
def test_damaged_file_is_no_model(tmp_path, missing):
    save_model(tmp_path / "model.npz", random_model(seed=15))
    with np.load(tmp_path / "model.npz") as arrays:
        kept = {name: array for name, array in arrays.items() if name != missing}
    np.savez(tmp_path / "model.npz", **kept)
    with pytest.raises(ValueError, match="damaged"):
        load_model_file(tmp_path / "model.npz")


def replaced(model, index, **changes):
    layers = list(model.layers)
    layers[index] = dataclasses.replace(layers[index], **changes)
    return dataclasses.replace(model, layers=tuple(layers))


WRONG = {
    "a model must have at least one layer": lambda model: dataclasses.replace(model, layers=()),
    "embedding_scale must be positive": lambda model: dataclasses.replace(model, embedding_scale=0.0),
    "all layers must have the hidden size 24, but layer 1 has 32": lambda model: dataclasses.replace(
        model, layers=(model.layers[0], random_model(seed=1, hidden=32).layers[1])
    ),
    "layer 0's output_norm must quantise as layer 1's": lambda model: replaced(
        model, 1, input_quantize=dataclasses.replace(model.layers[1].input_quantize, mult_shift=3)
    ),
    "embedding_norm must quantise as layer 0's": lambda model: dataclasses.replace(
        model, embedding_norm=dataclasses.replace(model.embedding_norm, mult=model.embedding_norm.mult + 1)
    ),
    "layer 1's input_scale must be the output_scale 1.0": lambda model: replaced(model, 1, input_scale=2.0),
    "embedding_scale must be layer 0's input_scale": lambda model: dataclasses.replace(
        model, embedding_norm=None, embedding_scale=3.0
    ),
    "head_dim even": lambda model: replaced(model, 0, head_dim=5),
    "output must have no duplicates with its wide operand": lambda model: replaced(
        model, 1, context_wide=True
    ),
    "context_residue must be bool": lambda model: replaced(model, 0, head_dim=8),
}


@pytest.mark.parametrize("message", WRONG)
def test_what_is_no_model(message):
    with pytest.raises(ValueError, match=message):
        WRONG[message](random_model(seed=16))


def test_shapes_are_checked():
    model = random_model(seed=17)
    with pytest.raises(ValueError, match=r"embedded16 must have the shape \[tokens, 24\], not \[2, 23\]"):
        integer_model.run_model(model, np.zeros((2, 23)))
    with pytest.raises(ValueError, match=r"sentences must have the shape \[tokens, 24\], not \[0, 24\]"):
        integer_model.run_sentences(model, [np.zeros((0, 24))])
