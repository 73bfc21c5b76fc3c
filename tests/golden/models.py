"""Random quantised models for tests, with wide operands, duplicates, and layers of different shapes."""

import dataclasses

import numpy as np

from bertha.golden.layer import QuantizedLayer, QuantizedLinear, QuantizedNorm
from bertha.golden.model import QuantizedModel

__all__ = ["random_model", "random_sums"]

OPERANDS = ("projections", "output", "intermediate", "down")


def random_model(*, seed, hidden=24, shapes=((2, 6, 20), (1, 4, 9)), wide=(), duplicates=3, embedding=True):
    """A model whose layers have the `shapes` (heads, head_dim, ffn).

    `wide` holds pairs of layer and operand (of `OPERANDS`), or of layer and "value": V is wide in P·V. The other
    operands have `duplicates` channels twice.
    """
    rng = np.random.default_rng(seed)

    def operand(layer, name, size):
        """Flags of an operand's duplicates, and whether it's wide."""
        flags = np.zeros(size, dtype=bool)
        if (layer, name) not in wide:
            flags[rng.choice(size, min(duplicates, size), replace=False)] = True
        return flags, (layer, name) in wide

    def linear(out, source, *, value=False, target=1500):
        flags, is_wide = source
        found = np.flatnonzero(flags)
        weight = rng.integers(-127, 128, (out, len(flags))).astype(np.int8)
        # A wide operand's values are 16 times as large in its accumulator.
        spread = 74 * (800 if is_wide else 50) * np.sqrt(len(flags))
        shift = rng.integers(22, 26, out) - (6 if value and target > 60 else 0)  # the multiplier has 16 bits
        return QuantizedLinear(
            weight=np.concatenate([weight, weight[:, found]], axis=1),
            duplicates=found,
            bias=(0 if value else 1) * rng.integers(-(1 << 18), 1 << 18, out).astype(np.int32),
            mult=np.clip(target / spread * 2.0**shift, 1, 65535).astype(np.uint16),
            shift=shift.astype(np.uint8),
            post_shift=(np.zeros(out) if value else rng.integers(3, 6, out)).astype(np.uint8),
        )

    def norm(source):
        flags, is_wide = source
        return QuantizedNorm(
            gamma=rng.integers(-20000, 20000, hidden).astype(np.int16),
            beta=rng.integers(-3000, 3000, hidden).astype(np.int16),
            mult=rng.integers(1000, 40000, hidden).astype(np.uint16),
            gamma_shift=13,
            mult_shift=13 if is_wide else 20,
            epsilon=int(rng.integers(1, 1 << 20)),
            residue=flags,
            wide=is_wide,
        )

    points = np.arange(-32768, 32768, 256)
    first = [operand(index, "projections", hidden) for index in range(len(shapes))]
    first.append((np.zeros(hidden, dtype=bool), False))
    norms = [norm(source) for source in first]
    layers = []
    for index, (heads, head_dim, ffn) in enumerate(shapes):
        width = heads * head_dim
        context, hidden_values = operand(index, "output", width), operand(index, "down", ffn)
        middle = operand(index, "intermediate", hidden)
        value_wide = (index, "value") in wide
        # Some of the values of a wide V saturate, and its context is 16 times as coarse as of an int8 one.
        spread = (14000 if context[1] else 600) if value_wide else 60
        extra_gain = (2 if value_wide else 8) if context[1] else 0
        zeros = np.zeros(hidden, np.int16)
        layers.append(
            QuantizedLayer(
                hidden=hidden,
                heads=heads,
                head_dim=head_dim,
                ffn=ffn,
                input_quantize=dataclasses.replace(
                    norms[index], gamma=zeros, beta=zeros, gamma_shift=0, epsilon=0
                ),
                query=linear(width, first[index]),
                key=linear(width, first[index]),
                value=linear(width, first[index], value=True, target=spread),
                value_wide=value_wide,
                score_mult=rng.integers(20000, 65536, heads).astype(np.uint16),
                score_shift=rng.integers(20, 23, heads).astype(np.uint8),
                context_gain=rng.integers(0, 4, heads).astype(np.uint8) + extra_gain,
                context_residue=context[0],
                context_wide=context[1],
                output=linear(hidden, context),
                attention_norm=norm(middle),
                intermediate=linear(ffn, middle),
                gelu_base=np.maximum(points, 0).astype(np.int16),
                gelu_slope=rng.integers(-300, 300, 256).astype(np.int16),
                hidden_residue=hidden_values[0],
                hidden_wide=hidden_values[1],
                down=linear(hidden, hidden_values),
                output_norm=norms[index + 1],
                input_scale=1.0,
                middle_scale=1.0,
                output_scale=1.0,
            )
        )
    return QuantizedModel(
        embedding_scale=1.0, embedding_norm=norms[0] if embedding else None, layers=tuple(layers)
    )


def random_sums(model, tokens, rng):
    """int16 embedding sums [tokens, hidden]."""
    return np.clip(rng.normal(0, 3000, (tokens, model.hidden)), -32768, 32767).astype(np.int16)
