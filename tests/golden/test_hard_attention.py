"""Hard attention in float, and integers beside it."""

import numpy as np
import pytest
import torch

from bertha.golden import floating, integer_model, metrics
from bertha.golden.hard_attention import hard_softmax
from bertha.models.encoder import load_model
from bertha.models.hard_attention import HardAttention
from bertha.quantize.quantizer import Settings, evaluation_sentences, quantize_layer


def test_the_highest_scores_keep_their_probability():
    scores = torch.tensor([[1.0, 3.0, 2.0, 3.0], [0.0, 0.0, 0.0, 0.0]])
    plain = torch.softmax(scores, -1)
    kept = torch.tensor([[False, True, False, True], [True, True, False, False]])
    assert torch.equal(hard_softmax(scores, 2, renormalised=False), torch.where(kept, plain, 0))
    renormalised = hard_softmax(scores, 2)
    assert torch.equal(renormalised > 0, kept)
    assert torch.allclose(renormalised.sum(-1), torch.ones(2))
    assert torch.allclose(hard_softmax(scores, 4), plain)


def test_a_model_that_keeps_all_keys_is_the_model():
    encoder = load_model("reduced")
    (sentence,) = evaluation_sentences(encoder, 1, length=12)
    same = encoder.with_hard_attention(HardAttention((64, 0)))
    for one, other in zip(
        floating.layer_reference(encoder, sentence, 1), floating.layer_reference(same, sentence, 1)
    ):
        assert np.allclose(one, other, atol=1e-6)
    few = encoder.with_hard_attention(HardAttention((1, 0)))
    assert not np.allclose(floating.layer_reference(few, sentence, 1)[0], one)
    assert (
        few.bert.encoder.layer[0].attention.self.query.weight
        is encoder.bert.encoder.layer[0].attention.self.query.weight
    )


@pytest.mark.parametrize("keys, renormalised", [(3, True), (3, False)])
def test_quantised_layers_are_near_float(keys, renormalised):
    encoder = load_model("reduced").with_hard_attention(HardAttention((keys, keys), renormalised))
    layer = quantize_layer(encoder, 0, Settings(calibration=40, length=32))
    assert (layer.attention_keys, layer.attention_renormalised) == (keys, renormalised)
    results, references = [], []
    for sentence in evaluation_sentences(encoder, 12, length=24):
        inputs, outputs = floating.layer_reference(encoder, sentence, 0)
        x16 = integer_model.quantise_input(inputs, layer.input_scale)
        result = integer_model.run_layer(layer, x16)
        assert (np.count_nonzero(result["probabilities"], axis=-1) <= keys).all()
        results.append(integer_model.dequantise(result["output16"], layer.output_scale))
        references.append(outputs)
    # Where two scores nearly tie, float and integers may keep different keys.
    assert metrics.pooled(results, references).cosine_mean >= 0.999
