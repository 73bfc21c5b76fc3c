import numpy as np
import pytest

from bertha.golden import floating
from bertha.models import text


def test_trace_and_reference_agree_on_every_layer(minilm):
    sentences = text.tokenize(minilm, ["A fine film.", "It was not, I am sorry to say."], 12)
    floating.trace_layer(minilm, sentences, 0)
    previous = None
    for index in range(minilm.layers):
        trace = floating.trace_layer(minilm, sentences, index)
        assert trace.lengths == [sentence.tokens for sentence in sentences]
        pairs = [floating.layer_reference(minilm, sentence, index) for sentence in sentences]
        for side, traced in ((0, trace.inputs), (1, trace.outputs)):
            real = np.concatenate([pair[side][s.mask] for pair, s in zip(pairs, sentences, strict=True)])
            assert np.allclose(real, traced, atol=2e-5)
        if previous is not None:
            assert np.array_equal(previous, pairs[0][0])
        previous = pairs[0][1]


def test_traced_tensors_are_what_the_weights_say(minilm):
    sentence = text.tokenize(minilm, ["A fine film."])
    trace, weights = floating.trace_layer(minilm, sentence, 1), floating.layer_weights(minilm, 1)
    assert np.allclose(trace.inputs @ weights.key.T + weights.key_bias, trace.key, atol=1e-4)
    attended = trace.context @ weights.output.T + weights.output_bias + trace.inputs
    assert np.allclose(attended, trace.attention_sum, atol=1e-4)
    total = trace.activated @ weights.down.T + weights.down_bias + trace.attention_out
    assert np.allclose(total, trace.ffn_sum, atol=1e-4)


@pytest.mark.parametrize("index", [-1, 6])
def test_layer_that_does_not_exist(minilm, index):
    with pytest.raises(ValueError, match=f"layer must be from 0 to 5, not {index}"):
        floating.layer_weights(minilm, index)
