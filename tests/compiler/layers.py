"""Random quantised layers for tests: every parameter in its range, with duplicates where they may be."""

import numpy as np

from bertha.golden.layer import QuantizedLayer, QuantizedLinear, QuantizedNorm

__all__ = ["random_inputs", "random_layer"]


def random_layer(*, seed, heads=2, head_dim=16, ffn=64, duplicates=(3, 3, 3, 3)):
    """A layer of the given shape; `duplicates` of the projections, `output`, `intermediate` and `down`."""
    rng = np.random.default_rng(seed)
    hidden = heads * head_dim

    def flags(size, count):
        chosen = np.zeros(size, dtype=bool)
        chosen[rng.choice(size, min(count, size), replace=False)] = True
        return chosen

    x_flags, context_flags = flags(hidden, duplicates[0]), flags(hidden, duplicates[1])
    middle_flags, hidden_flags = flags(hidden, duplicates[2]), flags(ffn, duplicates[3])

    def linear(out, source, *, value=False):
        found = np.flatnonzero(source)
        weight = rng.integers(-127, 128, (out, len(source))).astype(np.int8)
        # Results of a few hundred LSBs before the shift to int8, so that some saturate and most don't.
        spread = 74 * 50 * np.sqrt(weight.shape[1])
        shift = rng.integers(18, 24, out)
        target = 60 if value else 1500
        return QuantizedLinear(
            weight=np.concatenate([weight, weight[:, found]], axis=1),
            duplicates=found,
            bias=np.zeros(out, np.int32)
            if value
            else rng.integers(-(1 << 18), 1 << 18, out).astype(np.int32),
            mult=np.clip(target / spread * 2.0**shift, 1, 65535).astype(np.uint16),
            shift=shift.astype(np.uint8),
            post_shift=(np.zeros(out) if value else rng.integers(3, 6, out)).astype(np.uint8),
        )

    def norm(residue):
        return QuantizedNorm(
            gamma=rng.integers(-20000, 20000, hidden).astype(np.int16),
            beta=rng.integers(-3000, 3000, hidden).astype(np.int16),
            mult=rng.integers(1000, 40000, hidden).astype(np.uint16),
            gamma_shift=13,
            mult_shift=20,
            epsilon=int(rng.integers(1, 1 << 20)),
            residue=residue,
        )

    points = np.arange(-32768, 32768, 256)
    return QuantizedLayer(
        hidden=hidden,
        heads=heads,
        head_dim=head_dim,
        ffn=ffn,
        input_quantize=norm(x_flags),
        query=linear(hidden, x_flags),
        key=linear(hidden, x_flags),
        value=linear(hidden, x_flags, value=True),
        score_mult=rng.integers(20000, 65536, heads).astype(np.uint16),
        score_shift=rng.integers(20, 23, heads).astype(np.uint8),
        context_gain=rng.integers(0, 4, heads).astype(np.uint8),
        context_residue=context_flags,
        output=linear(hidden, context_flags),
        attention_norm=norm(middle_flags),
        intermediate=linear(ffn, middle_flags),
        gelu_base=np.maximum(points, 0).astype(np.int16),
        gelu_slope=rng.integers(-300, 300, 256).astype(np.int16),
        hidden_residue=hidden_flags,
        down=linear(hidden, hidden_flags),
        output_norm=norm(flags(hidden, 2)),
        input_scale=1.0,
        middle_scale=1.0,
        output_scale=1.0,
    )


def random_inputs(layer, seq, *, seed, masked=0):
    """int16 layer input [seq, hidden] and a mask with `masked` padding tokens at its end."""
    rng = np.random.default_rng(seed)
    x16 = np.clip(rng.normal(0, 3000, (seq, layer.hidden)), -32768, 32767).astype(np.int16)
    mask = np.arange(seq) < seq - masked
    return x16, mask
