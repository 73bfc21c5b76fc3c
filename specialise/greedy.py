"""The search of "Specialized Transformers" (Nagarajan et al.): from the top layer down, what hurts the task goes.

A whole block first; if it can't go, its heads or its groups of neurons one by one. An element goes if the loss falls and
more than half of the rows get better. Hidden states below the layer are kept: a candidate costs the layers above only.
Nothing is repaired.
"""

import numpy as np

from bertha.specialise.ablation import ATTENTION, FFN
from bertha.specialise.rows import run_layers, score
from bertha.specialise.small import small_layer

__all__ = ["GROUPS", "descend_greedily"]

GROUPS = 12
"""Of the neurons of a layer."""


def descend_greedily(search, budget=0.0, *, blocks=True) -> dict[tuple[int, str], tuple]:
    """What is left, by layer and kind.

    Parameters
    ----------
    search : Search
        Whose rows judge; its evaluations are counted.
    budget : float
        Above 0 an element goes too as long as the model's accuracy is at most so many points below the whole one's.
    blocks : bool
        Whether blocks are tried as a whole. False: every element for itself, the flat search.
    """
    encoder = search.encoder
    layers, classifier = list(encoder.bert.encoder.layer), encoder.classifier
    heads, neurons = encoder.config.num_attention_heads, encoder.config.intermediate_size
    states = [search.judge]
    for layer in layers[:-1]:
        states.append(run_layers([layer], states[-1]))
    kept, above, now = {}, [], search.whole
    for index in reversed(range(len(layers))):
        here = {ATTENTION: tuple(range(heads)), FFN: tuple(range(neurons))}
        for kind, units, count in ((FFN, neurons, GROUPS), (ATTENTION, heads, heads)):
            groups = [tuple(part.tolist()) for part in np.array_split(np.arange(units), min(count, units))]
            candidates = [tuple(range(units))] if blocks else []
            for gone in [*candidates, *groups]:
                left = tuple(unit for unit in here[kind] if unit not in set(gone))
                if len(left) == len(here[kind]):
                    continue
                trial = {**here, kind: left}
                layer = small_layer(layers[index], trial[ATTENTION], trial[FFN])
                found = score(classifier, [layer, *above], states[index])
                search.evaluations += 1
                better = float((found.losses < now.losses).float().mean())
                goes = found.loss < now.loss and better > 0.5
                goes = goes or (budget > 0 and 100 * (search.whole.accuracy - found.accuracy) <= budget)
                search.notify(
                    {
                        "what": "candidate",
                        "layer": index,
                        "block": kind,
                        "gone": [gone[0], gone[-1]],
                        "loss": found.loss,
                        "accuracy": found.accuracy,
                        "better": better,
                        "goes": goes,
                    }
                )
                if goes:
                    here, now = trial, found
        above.insert(0, small_layer(layers[index], here[ATTENTION], here[FFN]))
        kept |= {(index, kind): left for kind, left in here.items()}
    return kept
