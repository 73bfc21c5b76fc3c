"""Hard attention, layer by layer from the top: where a row may attend to few keys without hurting the task."""

import copy

from bertha.golden.hard_attention import HardSelfAttention
from bertha.models.hard_attention import HardAttention
from bertha.specialise.rows import run_layers, score

__all__ = ["search_hard_attention", "touched_rows"]


def search_hard_attention(
    encoder, batches, choices, *, renormalised=True, notify=lambda event: None
) -> HardAttention | None:
    """Keys of each layer, by the rule that prunes: the loss falls, and more than half of the rows that change get better.

    Parameters
    ----------
    encoder : Encoder
        Its layers attend to all keys.
    batches : list of RowBatch
        Rows that judge, at its first layer.
    choices : sequence of int
        Numbers of keys that are tried in every layer; the one with the lowest loss stays, if it is allowed to.
    renormalised : bool

    Returns
    -------
    HardAttention or None
        None: no layer attends hard.
    """
    layers, keys = list(encoder.bert.encoder.layer), [0] * encoder.layers
    states = [batches]
    for layer in layers[:-1]:
        states.append(run_layers([layer], states[-1]))
    now = score(encoder.classifier, layers, batches)
    for index in reversed(range(len(layers))):
        if not layers[index].attention.output.dense.weight.any():
            continue  # no heads
        best = None
        for count in choices:
            hard = copy.copy(layers[index])
            hard._modules = dict(hard._modules)
            hard.attention = copy.copy(hard.attention)
            hard.attention._modules = dict(hard.attention._modules)
            hard.attention.self = HardSelfAttention(layers[index].attention.self, count, renormalised)
            found = score(encoder.classifier, [hard, *layers[index + 1 :]], states[index])
            changed = found.losses != now.losses
            better = float((found.losses < now.losses)[changed].float().mean()) if changed.any() else 0.0
            goes = found.loss < now.loss and better > 0.5
            notify(
                {
                    "what": "hard attention",
                    "layer": index,
                    "keys": count,
                    "rows": touched_rows(batches, count),
                    "loss": found.loss,
                    "accuracy": found.accuracy,
                    "better": better,
                    "goes": goes,
                }
            )
            if goes and (best is None or found.loss < best[0].loss):
                best = found, hard, count
        if best:
            now, layers[index], keys[index] = best
    return HardAttention(tuple(keys), renormalised) if any(keys) else None


def touched_rows(batches, keys) -> float:
    """Share of tokens that see more than so many keys: the others' attention stays as it is."""
    counts = [batch.real.sum(dim=1) for batch in batches]
    touched = sum(int(count[count > keys].sum()) for count in counts)
    return touched / sum(int(count.sum()) for count in counts)
