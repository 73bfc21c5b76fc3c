"""A model without some heads and neurons, and what is left of it made to do the whole one's work, without training."""

import copy
from dataclasses import dataclass, replace

import torch
from torch import nn

from bertha.specialise.ablation import ATTENTION, FFN, linear_of
from bertha.specialise.rows import run_layers
from bertha.specialise.small import features_of, small_layer

__all__ = ["Pruned", "Repair", "embedded_in", "prune"]

RIDGE = 0.1
"""How strongly weights stay what they were, as a part of the operand's mean second moment."""


class Pruned:
    """A model that is being pruned, layer by layer from below.

    Attributes
    ----------
    encoder : Encoder
        The dense form: what is gone has weights of zero.
    layers : list of BertLayer
        The same, each really smaller (`small_layer`).
    """

    def __init__(self, encoder):
        self.encoder = replace(encoder, bert=copy.deepcopy(encoder.bert))
        self.layers = []

    @property
    def dense(self) -> nn.ModuleList:
        """The dense form's layers."""
        return self.encoder.bert.encoder.layer

    def remove(self, index, kind, kept) -> None:
        """Leaves some heads or neurons of a block; a block of which nothing is left adds nothing, not even a bias.

        Its bias goes to what comes before, whose output nothing but the residual reads then.
        """
        layer, linear = self.dense[index], linear_of(self.dense[index], kind)
        if kind == ATTENTION:
            places = features_of(kept, layer.attention.self.attention_head_size)
            before = [getattr(layer.attention.self, name) for name in ("query", "key", "value")]
        else:
            places, before = list(kept), [layer.intermediate.dense]
        gone = torch.ones(linear.in_features, dtype=torch.bool)
        gone[places] = False
        for module in before:
            module.weight[gone] = 0
            module.bias[gone] = 0
        linear.weight[:, gone] = 0
        if not kept:
            _norm_before(self.encoder, index, kind).bias.add_(linear.bias)
            linear.bias.zero_()


def _norm_before(encoder, index, kind) -> nn.Module:
    """What has the last bias before a block's residual: a LayerNorm, or an electra's projection."""
    if kind == FFN:
        return encoder.bert.encoder.layer[index].attention.output.LayerNorm
    if index:
        return encoder.bert.encoder.layer[index - 1].output.LayerNorm
    embeddings = encoder.bert.embeddings
    return embeddings.LayerNorm if encoder.embedding_norm else embeddings.projection


@dataclass(frozen=True, eq=False)
class Repair:
    """What the linear layers behind what is left are fitted to.

    Attributes
    ----------
    batches : list of RowBatch
        Calibration rows at the first layer.
    statistics : dict
        See `bertha.specialise.ablation.measure`, of these batches: how much each token counts.
    sums : dict of (int, str) to float32 [tokens, hidden]
        What the whole model's LayerNorms get, by layer and kind of the block before them; real tokens only.
    """

    batches: list
    statistics: dict
    sums: dict

    @classmethod
    def of(cls, encoder, batches, statistics) -> "Repair":
        """With the sums of the whole model."""
        parts, hooks = {}, []
        for index, layer in enumerate(encoder.bert.encoder.layer):
            for kind in (ATTENTION, FFN):
                found = parts[index, kind] = []
                norm = layer.attention.output if kind == ATTENTION else layer.output
                hooks.append(norm.LayerNorm.register_forward_pre_hook(_keep(found)))
        try:
            run_layers(encoder.bert.encoder.layer, batches)
        finally:
            for hook in hooks:
                hook.remove()
        return cls(batches, statistics, {key: _real(found, batches) for key, found in parts.items()})


def prune(encoder, kept, repair=None) -> Pruned:
    """A model with some of its heads and neurons.

    Parameters
    ----------
    encoder : Encoder
    kept : dict of (int, str) to tuple of int
        Heads or neurons that are left, by layer and kind of block.
    repair : Repair, optional
        The linear layer behind what is left is fitted anew, block by block from below, by ridge regression: on what the
        pruned model so far gives it, the sum before the LayerNorm becomes the whole model's again.
    """
    pruned = Pruned(encoder)
    with torch.no_grad():
        for index in range(encoder.layers):
            for kind in (ATTENTION, FFN):
                pruned.remove(index, kind, kept[index, kind])
        states = embedded_in(pruned, encoder, repair.batches) if repair else []
        for index, layer in enumerate(pruned.dense):
            small = small_layer(layer, kept[index, ATTENTION], kept[index, FFN])
            if repair:
                states = _repaired(pruned, small, index, kept, states, repair)
                small = small_layer(layer, kept[index, ATTENTION], kept[index, FFN])
            pruned.layers.append(small)
        # A block above of which nothing is left may have moved a norm's bias since.
        for small, layer in zip(pruned.layers, pruned.dense):
            small.output.LayerNorm.bias.copy_(layer.output.LayerNorm.bias)
    return pruned


def _repaired(pruned, small, index, kept, states, repair):
    """Fits both blocks of a layer, of which `small` is what is left; the rows behind it."""
    for kind in (ATTENTION, FFN):
        if kind == ATTENTION:
            inputs = [small.attention.self(batch.states, batch.hidden_keys)[0] for batch in states]
            behind = small.attention.output
        else:
            inputs = [small.intermediate(batch.states) for batch in states]
            behind = small.output
        weights = _real(repair.statistics[index, kind].tokens, states)
        target = repair.sums[index, kind] - _real([batch.states for batch in states], states)
        shift = _fit(behind.dense, _real(inputs, states), target, weights)
        if not kept[index, kind]:  # what came before has another bias instead
            _norm_before(pruned.encoder, index, kind).bias.add_(shift)
        elif shift is not None:
            linear = linear_of(pruned.dense[index], kind)
            size = linear.in_features // pruned.encoder.config.num_attention_heads
            places = list(kept[index, kind]) if kind == FFN else features_of(kept[index, kind], size)
            linear.weight[:, places] = behind.dense.weight
            linear.bias.copy_(behind.dense.bias)
        states = [
            batch.at(behind.LayerNorm(behind.dense(read) + batch.states))
            for read, batch in zip(inputs, states)
        ]
    return states


def _fit(linear, inputs, target, weights):
    """Fits a linear layer, or of one that reads nothing its bias, to a target [tokens, hidden]; gives that bias.

    None: no token counts, nothing changes.
    """
    total = weights.double().sum()
    if not total > 0:
        return None if linear.in_features else torch.zeros_like(linear.bias)
    weights = (weights.double() / total).float()
    mean = weights @ target
    if linear.in_features:
        middle = weights @ inputs
        centred = inputs - middle
        scaled = centred * weights[:, None]
        moments = (scaled.T @ centred).double()
        ridge = RIDGE * moments.diagonal().mean().clamp(min=1e-30)
        moments.diagonal().add_(ridge)
        right = (scaled.T @ (target - mean)).double() + ridge * linear.weight.T.double()
        fitted = torch.linalg.solve(moments, right).T.float()
        linear.weight.copy_(fitted)
        mean = mean - fitted @ middle
    linear.bias.copy_(mean)
    return mean


def _keep(found):
    def hook(module, inputs):
        found.append(inputs[0])

    return hook


def _real(parts, batches):
    """Values of real tokens, of all batches one after another."""
    return torch.cat([part[batch.real] for part, batch in zip(parts, batches, strict=True)])


def embedded_in(pruned, encoder, batches) -> list:
    """Rows at `encoder`'s first layer as they are in the pruned model, whose embeddings may end with another bias."""
    shift = _norm_before(pruned.encoder, 0, ATTENTION).bias - _norm_before(encoder, 0, ATTENTION).bias
    return [batch.at(batch.states + shift) for batch in batches]
