"""A model without some heads and neurons, and what is left of it made to do the whole one's work, without training."""

import copy
from dataclasses import replace

import torch
from torch import nn

from bertha.specialise.ablation import ATTENTION, FFN, linear_of
from bertha.specialise.rows import run_layers
from bertha.specialise.small import features_of, small_layer

__all__ = ["Pruned", "embedded_in", "prune"]

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


def prune(encoder, kept, batches=(), statistics=None) -> Pruned:
    """A model with some of its heads and neurons.

    Parameters
    ----------
    encoder : Encoder
    kept : dict of (int, str) to tuple of int
        Heads or neurons that are left, by layer and kind of block.
    batches : list of RowBatch
        With them, the linear layer behind what is left is fitted anew, block by block from below, by ridge regression:
        on what the pruned model so far gives it, the sum before the LayerNorm becomes the whole model's again.
    statistics : dict, optional
        See `bertha.specialise.ablation.measure`, of the same batches: how much each token counts.
    """
    pruned = Pruned(encoder)
    whole = states = list(batches)
    with torch.no_grad():
        for index, layer in enumerate(encoder.bert.encoder.layer):
            for kind in (ATTENTION, FFN):
                pruned.remove(index, kind, kept[index, kind])
            if batches:
                wanted = _sums(layer, whole)
                whole = run_layers([layer], whole)
                for kind in (ATTENTION, FFN):
                    tokens = statistics[index, kind].tokens
                    shift = _fit(pruned, index, kind, kept[index, kind], states, wanted[kind], tokens)
                    if shift is not None and kind == ATTENTION:  # what came before has another bias
                        states = [batch.at(batch.states + shift) for batch in states]
            dense = pruned.dense[index]
            small = small_layer(dense, kept[index, ATTENTION], kept[index, FFN])
            pruned.layers.append(small)
            if batches:
                states = run_layers([small], states)
        # Biases of blocks above that are gone came to these norms after they were copied.
        for small, dense in zip(pruned.layers, pruned.dense):
            small.output.LayerNorm.bias.copy_(dense.output.LayerNorm.bias)
    return pruned


def _sums(layer, batches):
    """What the whole layer's two LayerNorms get, of real tokens."""
    found = {ATTENTION: [], FFN: []}
    hooks = [
        norm.register_forward_hook(lambda module, inputs, output, name=name: found[name].append(inputs[0]))
        for name, norm in ((ATTENTION, layer.attention.output.LayerNorm), (FFN, layer.output.LayerNorm))
    ]
    try:
        run_layers([layer], batches)
    finally:
        for hook in hooks:
            hook.remove()
    return {
        name: torch.cat([part[batch.real] for part, batch in zip(parts, batches)])
        for name, parts in found.items()
    }


def _fit(pruned, index, kind, kept, states, wanted, tokens):
    """Fits a block's linear layer; of one of which nothing is left, the bias before it, by how much is given."""
    dense = pruned.dense[index]
    linear = linear_of(dense, kind)
    inputs, residual = _seen(dense, pruned, index, kind, kept, states)
    weights = torch.cat([part[batch.real] for part, batch in zip(tokens, states)]).double()
    total = weights.sum()
    if not total > 0:
        return None
    weights = weights / total
    target = (wanted - residual).double()
    mean = weights @ target
    if not kept:
        shift = mean.float()
        _norm_before(pruned.encoder, index, kind).bias.add_(shift)
        return shift
    places = list(kept) if kind == FFN else features_of(kept, dense.attention.self.attention_head_size)
    inputs = inputs.double()
    middle = weights @ inputs
    scaled = (inputs - middle) * weights[:, None]
    moments = scaled.T @ (inputs - middle)
    ridge = RIDGE * moments.diagonal().mean().clamp(min=1e-30)
    moments.diagonal().add_(ridge)
    before = linear.weight[:, places].double()
    right = scaled.T @ (target - mean) + ridge * before.T
    fitted = torch.linalg.solve(moments, right).T
    linear.weight[:, places] = fitted.float()
    linear.bias.copy_((mean - fitted @ middle).float())
    return None


def _seen(dense, pruned, index, kind, kept, states):
    """What a block's linear layer reads in the pruned model, and the residual beside it, of real tokens."""
    heads = pruned.encoder.config.num_attention_heads
    neurons = kept if kind == FFN else ()
    small = small_layer(dense, kept if kind == ATTENTION else _left(dense, heads), neurons)
    inputs, residuals = [], []
    hooks = [linear_of(small, kind).register_forward_pre_hook(lambda _, got: inputs.append(got[0]))]
    if kind == FFN:
        norm = small.attention.output.LayerNorm
        hooks.append(norm.register_forward_hook(lambda _, got, output: residuals.append(output)))
        run_layers([small], states)
    else:
        residuals = [batch.states for batch in states]
        run_layers([lambda hidden, keys: small.attention(hidden, keys)], states)
    for hook in hooks:
        hook.remove()
    return tuple(
        torch.cat([part[batch.real] for part, batch in zip(parts, states)]) for parts in (inputs, residuals)
    )


def _left(dense, heads):
    """Heads that the layer's output still listens to."""
    heard = dense.attention.output.dense.weight.any(dim=0).reshape(heads, -1).any(dim=1)
    return heard.nonzero()[:, 0].tolist()


def embedded_in(pruned, encoder, batches) -> list:
    """Rows at `encoder`'s first layer as they are in the pruned model, whose embeddings may end with another bias."""
    shift = _norm_before(pruned.encoder, 0, ATTENTION).bias - _norm_before(encoder, 0, ATTENTION).bias
    return [batch.at(batch.states + shift) for batch in batches]
