"""Layers with fewer heads and neurons, as modules that really are smaller."""

import copy

import torch
from torch import nn

__all__ = ["features_of", "small_layer"]


class _NoHeads(nn.Module):
    """In place of a BertSelfAttention of which no head is left."""

    def forward(self, hidden_states, *_, **__) -> tuple[torch.Tensor, None]:
        """Context [B, S, 0], and no probabilities."""
        return hidden_states[..., :0], None


def features_of(heads, head_dim) -> list[int]:
    """Places of some heads' features."""
    return [head * head_dim + place for head in heads for place in range(head_dim)]


def small_layer(layer, heads, neurons) -> nn.Module:
    """A BertLayer with some of the heads and neurons of another, whose tensors it copies.

    Parameters
    ----------
    layer : BertLayer
    heads, neurons : sequence of int
        What is left; of none, LayerNorm is that of the residual and the linear layer's bias.
    """
    small = copy.deepcopy(layer)
    attention = small.attention.self
    features = features_of(heads, attention.attention_head_size)
    if len(features) < attention.query.out_features:
        if heads:
            for name in ("query", "key", "value"):
                setattr(attention, name, _rows(getattr(attention, name), features))
        else:
            small.attention.self = _NoHeads()
        small.attention.output.dense = _columns(small.attention.output.dense, features)
    if len(neurons) < small.intermediate.dense.out_features:
        small.intermediate.dense = _rows(small.intermediate.dense, list(neurons))
        small.output.dense = _columns(small.output.dense, list(neurons))
    return small


def _rows(linear, kept):
    return _linear(linear.weight[kept], linear.bias[kept])


def _columns(linear, kept):
    return _linear(linear.weight[:, kept], linear.bias)


def _linear(weight, bias):
    with torch.device("meta"):
        linear = nn.Linear(1, 1)
    linear.in_features, linear.out_features = weight.shape[1], weight.shape[0]
    linear.weight = nn.Parameter(weight.detach().clone(), requires_grad=False)
    linear.bias = nn.Parameter(bias.detach().clone(), requires_grad=False)
    return linear
