"""Seeded random weights with the statistics of a trained BERT, for shapes no package has weights of.

The figures are those of all-MiniLM-L6-v2: standard deviations of its weights and biases, the kurtosis of its
LayerNorm gammas (about 40), and outliers like its channel 223 (a LayerNorm output far above the others)
and its neuron 856 (an FFN output of 24.8 where the next one has 5.9).
"""

import torch

__all__ = ["synthetic_state"]


def synthetic_state(shapes, seed) -> dict[str, torch.Tensor]:
    """Random tensors for a BertModel's state dict, with the same keys and shapes."""
    generator = torch.Generator().manual_seed(seed)
    state = {}
    for key, tensor in shapes.items():
        state[key] = _tensor(key, tensor.shape, generator)
    for key in [key for key in state if key.endswith("intermediate.dense.weight")]:
        _outlier_neuron(state, key.removesuffix("intermediate.dense.weight"), generator)
    return state


def _tensor(key, shape, generator):
    if key.endswith("LayerNorm.weight"):
        return _with_outliers(0.6 + 0.05 * _normal(shape, generator), 1.4, generator)
    if key.endswith("LayerNorm.bias"):
        return _with_outliers(0.03 + 0.06 * _normal(shape, generator), 1.2, generator)
    if "position_embeddings" in key or "token_type_embeddings" in key:
        return 0.02 * _normal(shape, generator)
    if "word_embeddings" in key:
        return 0.055 * _normal(shape, generator)
    if key.endswith(("query.weight", "key.weight")):
        # Spread so that scores vary by a few units at any width.
        return (1.8 / shape[1] ** 0.5) * _heavy(shape, generator)
    if key.endswith("query.bias"):
        return 0.3 * _normal(shape, generator)
    if key.endswith("key.bias"):
        return 0.001 * _normal(shape, generator)
    if key.endswith("intermediate.dense.bias"):
        return -0.08 + 0.12 * _normal(shape, generator)
    if key.endswith("bias"):
        return 0.08 * _normal(shape, generator)
    return 0.045 * _heavy(shape, generator)


def _normal(shape, generator):
    return torch.randn(shape, generator=generator)


def _heavy(shape, generator):
    """Unit variance and a kurtosis of about 4: a normal of random scale."""
    return _normal(shape, generator) * (0.4 * torch.rand(shape, generator=generator) + 0.8) / 1.007


def _with_outliers(values, size, generator):
    """A few channels (one in a hundred, at least one) of about `size`."""
    count = max(1, len(values) // 100)
    where = torch.randperm(len(values), generator=generator)[:count]
    values[where] = size * (0.7 + 0.3 * torch.rand(count, generator=generator))
    return values


def _outlier_neuron(state, prefix, generator):
    """Make one FFN neuron four times as strong as the others, with one large weight behind it."""
    weight = state[prefix + "intermediate.dense.weight"]
    neuron = int(torch.randint(len(weight), (1,), generator=generator))
    weight[neuron] *= 4
    down = state[prefix + "output.dense.weight"]
    down[int(torch.randint(len(down), (1,), generator=generator)), neuron] = 4.0
