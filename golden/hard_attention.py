"""Hard attention in float: a row attends to the few keys with the highest scores."""

import copy

import torch

__all__ = ["HardSelfAttention", "hard_softmax", "with_hard_attention"]


def hard_softmax(scores, keys, renormalised=True) -> torch.Tensor:
    """Softmax over the last axis that leaves 0 to all but the `keys` highest scores, of equal ones the first.

    Parameters
    ----------
    scores : float tensor [..., S]
    keys : int
        At least 1.
    renormalised : bool
        Whether the kept probabilities add up to 1, or stay what they are among all.
    """
    probabilities = torch.softmax(scores, dim=-1)
    order = torch.sort(scores, dim=-1, descending=True, stable=True).indices
    kept = torch.zeros_like(scores, dtype=torch.bool).scatter(-1, order[..., :keys], True)
    probabilities = torch.where(kept, probabilities, 0)
    return probabilities / probabilities.sum(-1, keepdim=True) if renormalised else probabilities


class HardSelfAttention(torch.nn.Module):
    """In place of a BertSelfAttention, whose weights it shares.

    Parameters
    ----------
    soft : BertSelfAttention
    keys : int
    renormalised : bool

    Attributes
    ----------
    attention_keys, attention_renormalised : int, bool
    """

    def __init__(self, soft, keys, renormalised):
        super().__init__()
        self.query, self.key, self.value = soft.query, soft.key, soft.value
        self._head_dim, self._scaling = soft.attention_head_size, soft.scaling
        self.attention_keys, self.attention_renormalised = keys, renormalised

    def forward(self, hidden_states, attention_mask=None, **_) -> tuple[torch.Tensor, torch.Tensor]:
        """Context [B, S, width] and probabilities [B, heads, S, S]; `attention_mask` is added to the scores."""
        shape = (*hidden_states.shape[:-1], -1, self._head_dim)
        query, key, value = (
            project(hidden_states).view(shape).transpose(1, 2)
            for project in (self.query, self.key, self.value)
        )
        scores = query @ key.transpose(2, 3) * self._scaling
        if attention_mask is not None:
            scores = scores + attention_mask
        probabilities = hard_softmax(scores, self.attention_keys, self.attention_renormalised)
        return (probabilities @ value).transpose(1, 2).flatten(2), probabilities


def with_hard_attention(bert, keys, renormalised=True) -> torch.nn.Module:
    """A BertModel that shares the weights of `bert` and whose layers attend to so many keys.

    Parameters
    ----------
    bert : BertModel
    keys : sequence of int
        By layer; 0: all.
    renormalised : bool
    """
    shared = {id(tensor): tensor for tensor in (*bert.parameters(), *bert.buffers())}
    hard = copy.deepcopy(bert, shared)
    for layer, count in zip(hard.encoder.layer, keys, strict=True):
        if count:
            layer.attention.self = HardSelfAttention(layer.attention.self, count, renormalised)
    return hard
