import numpy as np
import torch

from bertha.golden.floating import LayerTrace, LayerWeights
from bertha.quantize.splitting import PANEL, SHARE, neuron_copies, split_neurons

FFN = SHARE * PANEL  # so many that one panel of copies is spent


def outgoing(loud):
    weight = np.random.default_rng(1).normal(size=(16, FFN))
    weight[3, 77] = loud
    return weight


def test_a_loud_neuron_gets_most_copies():
    copies = neuron_copies(outgoing(500.0), np.ones(FFN))
    assert copies.sum() == FFN + PANEL and copies.min() == 1
    assert copies.argmax() == 77 and copies[77] > PANEL / 2


def test_no_copies_where_they_gain_nothing():
    assert (neuron_copies(np.ones((16, FFN)), np.ones(FFN)) == 1).all()
    assert (neuron_copies(np.zeros((16, FFN)), np.ones(FFN)) == 1).all()


def test_a_small_network_has_no_copies():
    assert (neuron_copies(outgoing(500.0)[:, : FFN - 1], np.ones(FFN - 1)) == 1).all()


def parts(ffn, hidden=4, tokens=50):
    """Weights and trace of which only the feed-forward network matters."""
    generator = np.random.default_rng(5)
    intermediate, down = generator.normal(size=(ffn, hidden)), generator.normal(size=(hidden, ffn))
    bias = generator.normal(size=ffn)
    inputs = generator.normal(size=(tokens, hidden))
    pre = inputs @ intermediate.T + bias
    fields = dict.fromkeys(LayerWeights.__dataclass_fields__)
    weights = LayerWeights(
        **{**fields, "intermediate": intermediate, "intermediate_bias": bias, "down": down}
    )
    trace = dict.fromkeys(LayerTrace.__dataclass_fields__)
    activated = torch.nn.functional.gelu(torch.from_numpy(pre)).numpy()
    return weights, LayerTrace(**{**trace, "pre_activation": pre, "activated": activated}), inputs


def test_the_function_stays_the_same():
    weights, trace, inputs = parts(6)
    split, copied, dither = split_neurons(weights, trace, np.array([1, 3, 1, 1, 2, 1]))
    assert len(split.intermediate) == 9 and len(dither) == 9
    pre = inputs @ split.intermediate.T + split.intermediate_bias
    assert np.allclose(pre, copied.pre_activation)
    assert np.allclose(copied.activated @ split.down.T, trace.activated @ weights.down.T)
    assert np.count_nonzero(dither) == 4  # of three copies the middle one stays
    assert np.allclose(np.sort(dither[[1, 6, 7]]), [-1 / 3, 0, 1 / 3])


def test_dithered_copies_resolve_a_fraction_of_a_step():
    values = np.random.default_rng(7).uniform(-50, 50, 4000)
    for count in (1, 4, 16):
        weights, trace, _ = parts(1)
        _, _, dither = split_neurons(weights, trace, np.array([count]))
        together = np.mean([np.round(values + moved) - moved for moved in dither], axis=0)
        assert np.abs(together - values).max() <= 0.5 / count + 1e-9
