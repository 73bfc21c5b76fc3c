"""Random quantised layers and models for tests: every parameter in its range, with duplicates where they may be."""

import random
from dataclasses import replace

import numpy as np

from bertha.golden.layer import QuantizedLayer, QuantizedLinear, QuantizedNorm
from bertha.golden.model import QuantizedModel

__all__ = [
    "chained",
    "packed_ranges",
    "random_hard_attention",
    "random_inputs",
    "random_layer",
    "random_model",
]


def random_layer(
    *,
    seed,
    heads=2,
    head_dim=16,
    ffn=64,
    hidden=None,
    duplicates=(3, 3, 3, 3),
    wide=(False,) * 4,
    value_wide=False,
    attention_keys=0,
    attention_renormalised=True,
):
    """A layer of the given shape; `duplicates` of the projections, `output`, `intermediate` and `down`.

    `wide`: which of these have a wide operand, which takes no duplicates. `value_wide`: V is wide in P·V; some of its
    values then saturate, and most need both planes. `attention_keys`, `attention_renormalised`: `QuantizedLayer`'s.
    """
    rng = np.random.default_rng(seed)
    width = heads * head_dim
    hidden = hidden or width
    duplicates = [0 if is_wide else count for count, is_wide in zip(duplicates, wide, strict=True)]

    def flags(size, count):
        chosen = np.zeros(size, dtype=bool)
        chosen[rng.choice(size, min(count, size), replace=False)] = True
        return chosen

    x_flags, context_flags = flags(hidden, duplicates[0]), flags(width, duplicates[1])
    middle_flags, hidden_flags = flags(hidden, duplicates[2]), flags(ffn, duplicates[3])

    def linear(out, source, is_wide, *, value=False):
        found = np.flatnonzero(source)
        weight = rng.integers(-127, 128, (out, len(source))).astype(np.int8)
        # Results of a few hundred LSBs before the shift to int8, so that some saturate and most don't.
        spread = 74 * 50 * np.sqrt(max(1, weight.shape[1]))
        shift = rng.integers(18, 24, out)
        lower = 4 if is_wide else 0  # a wide product's unit is a 16th of a narrow one's
        target = 60 if value else 1500
        if value and value_wide:
            shift = shift - 5 - lower
            target = (12000 if wide[1] else 600) * 2**lower
        return QuantizedLinear(
            weight=np.concatenate([weight, weight[:, found]], axis=1),
            duplicates=found,
            bias=np.zeros(out, np.int32)
            if value or not len(source)
            else rng.integers(-(1 << 18), 1 << 18, out).astype(np.int32),
            mult=np.clip(target / spread * 2.0 ** (shift + lower), 1, 65535).astype(np.uint16),
            shift=(shift + lower).astype(np.uint8),
            post_shift=(np.zeros(out) if value else rng.integers(3, 6, out)).astype(np.uint8),
        )

    def norm(residue, is_wide=False):
        return QuantizedNorm(
            gamma=rng.integers(-20000, 20000, hidden).astype(np.int16),
            beta=rng.integers(-3000, 3000, hidden).astype(np.int16),
            mult=rng.integers(1000, 40000, hidden).astype(np.uint16),
            gamma_shift=13,
            mult_shift=20,
            epsilon=int(rng.integers(1, 1 << 20)),
            residue=residue,
            wide=is_wide,
        )

    points = np.arange(-32768, 32768, 256)
    return QuantizedLayer(
        hidden=hidden,
        heads=heads,
        head_dim=head_dim,
        ffn=ffn,
        input_quantize=norm(x_flags, wide[0]),
        query=linear(width, x_flags, wide[0]),
        key=linear(width, x_flags, wide[0]),
        value=linear(width, x_flags, wide[0], value=True),
        value_wide=value_wide,
        score_mult=rng.integers(20000, 65536, heads).astype(np.uint16),
        score_shift=rng.integers(20, 23, heads).astype(np.uint8),
        context_gain=rng.integers(0, 4, heads).astype(np.uint8),
        context_residue=context_flags,
        context_wide=wide[1],
        output=linear(hidden, context_flags, wide[1]),
        attention_norm=norm(middle_flags, wide[2]),
        intermediate=linear(ffn, middle_flags, wide[2]),
        gelu_base=np.maximum(points, 0).astype(np.int16),
        gelu_slope=rng.integers(-300, 300, 256).astype(np.int16),
        hidden_residue=hidden_flags,
        hidden_wide=wide[3],
        down=linear(hidden, hidden_flags, wide[3]),
        output_norm=norm(flags(hidden, 2)),
        input_scale=1.0,
        middle_scale=1.0,
        output_scale=1.0,
        attention_keys=attention_keys,
        attention_renormalised=attention_renormalised,
    )


def random_hard_attention(chance):
    """Parameters of a layer's hard attention, of half of them: often some keys of a few."""
    if chance.random() < 0.5:
        return {}
    keys = chance.choice([1, chance.randint(1, 7), chance.randint(2, 40)])
    return {"attention_keys": keys, "attention_renormalised": chance.random() < 0.6}


def chained(layers, *, embedding_norm=True):
    """A model of these layers, each of which writes the next one's operand."""
    norms = [layer.output_norm for layer in layers]
    for number, layer in enumerate(layers[1:]):
        norms[number] = _writes_operand_of(norms[number], layer)
    return QuantizedModel(
        embedding_scale=1.0,
        embedding_norm=_writes_operand_of(norms[-1], layers[0]) if embedding_norm else None,
        layers=tuple(replace(layer, output_norm=norm) for layer, norm in zip(layers, norms, strict=True)),
    )


def _writes_operand_of(norm, layer):
    operand = layer.input_quantize
    return replace(
        norm, mult=operand.mult, mult_shift=operand.mult_shift, residue=operand.residue, wide=operand.wide
    )


def random_model(chance, *, layers=None, embedding_norm=None, pruned=False):
    """A model of random layers, which differ in heads, width and operands; `chance` is a `random.Random`.

    `pruned`: layers may lack attention, the FFN, or both, and often have one head or few neurons.
    """
    hidden = 2 * chance.randint(1, 26)
    found = []
    for _ in range(layers or chance.randint(1, 3)):
        wide = [chance.random() < 0.25 for _ in range(4)]
        value_wide = chance.random() < 0.4
        left = {}
        if pruned:
            left = {
                "heads": chance.choice([0, 0, 1, 3]),
                "ffn": chance.choice([0, 0, 1, 7, 2 * chance.randint(1, 30)]),
            }
        seed = chance.getrandbits(32)
        found.append(
            random_layer(
                seed=seed,
                head_dim=2 * chance.randint(1, 9),
                **({"heads": chance.randint(1, 3), "ffn": chance.randint(1, 60)} | left),
                hidden=hidden,
                duplicates=[chance.randint(0, 7) for _ in range(4)],
                wide=wide,
                value_wide=value_wide,
                **random_hard_attention(random.Random(seed)),
            )
        )
    return chained(found, embedding_norm=chance.random() < 0.7 if embedding_norm is None else embedding_norm)


def packed_ranges(chance, tokens):
    """Sentences of random lengths one after another, with padding where it falls; some are causal."""
    ranges = np.zeros((tokens, 2), dtype=np.int64)
    start = 0
    while start < tokens:
        length = chance.randint(1, max(1, min(tokens - start, chance.choice([2, 5, 12, tokens]))))
        kind = chance.random()
        if kind < 0.7:
            ranges[start : start + length] = (start, start + length)
        elif kind < 0.85:
            ranges[start : start + length, 0] = start
            ranges[start : start + length, 1] = np.arange(start, start + length) + 1
        start += length
    return ranges


def random_inputs(layer, seq, *, seed, masked=0):
    """int16 layer input [seq, hidden] and the ranges of a sentence with `masked` padding tokens behind it."""
    rng = np.random.default_rng(seed)
    x16 = np.clip(rng.normal(0, 3000, (seq, layer.hidden)), -32768, 32767).astype(np.int16)
    ranges = np.zeros((seq, 2), dtype=np.int64)
    ranges[: seq - masked, 1] = seq - masked
    return x16, ranges
