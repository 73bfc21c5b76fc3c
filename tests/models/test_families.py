"""Every family's checkpoints give what Hugging Face's own class gives."""

import numpy as np
import pytest
import torch
from transformers import BertModel

from bertha.golden.floating import layer_reference, layer_weights, trace_layer
from bertha.models.embedding import embedding_sums, float_hidden_states
from bertha.models.encoder import ModelError, load_model
from tests.models.checkpoints import (
    CLASSES,
    own_states,
    random_sentence,
    tiny_model,
    write_config,
    write_model,
)


def check(encoder, model, segments=0):
    """Hidden states equal on real tokens, for a short, a padded and the longest sentence."""
    for tokens, padding in ((3, 0), (7, 4), (16, 0)):
        sentence = random_sentence(encoder, tokens, padding, min(segments, tokens - 1))
        ours, theirs = float_hidden_states(encoder, sentence), own_states(model, sentence)
        assert len(ours) == len(theirs) == encoder.layers + 1
        for one, other in zip(ours, theirs):
            assert one.dtype == np.float32
            np.testing.assert_allclose(one[sentence.mask], other[sentence.mask], rtol=0, atol=1e-5)
        check_sums(encoder, sentence, ours[0])


def check_sums(encoder, sentence, first):
    """What the host sums, and the accelerator's LayerNorm of it, are the first layer's input."""
    sums = torch.from_numpy(embedding_sums(encoder, sentence))
    if encoder.embedding_norm:
        norm = encoder.bert.embeddings.LayerNorm
        sums = torch.nn.functional.layer_norm(sums, sums.shape[-1:], norm.weight, norm.bias, norm.eps)
    np.testing.assert_allclose(sums.numpy(), first, rtol=0, atol=1e-5)


@pytest.mark.parametrize("family", CLASSES)
def test_each_family_equals_its_own_class(family, tmp_path):
    model = tiny_model(family)
    encoder = load_model(write_model(tmp_path, model))
    assert isinstance(encoder.bert, BertModel) and encoder.family == family and encoder.trained
    assert (encoder.layers, encoder.config.hidden_size, encoder.embedding_norm) == (2, 20, True)
    assert encoder.config.max_position_embeddings == 16
    assert not encoder.bert.training and not any(each.requires_grad for each in encoder.bert.parameters())
    check(encoder, model, segments=2 if family in ("bert", "electra") else 0)


@pytest.mark.parametrize("width", [8, 28])
def test_projected_electra(tmp_path, width):
    model = tiny_model("electra", embedding_size=width)
    encoder = load_model(write_model(tmp_path, model))
    assert not encoder.embedding_norm
    check(encoder, model, segments=2)


def test_electra_without_its_embedding_size(tmp_path):
    model = tiny_model("electra", embedding_size=8)
    check(load_model(write_model(tmp_path, model, embedding_size=None)), model)


def test_roberta_with_another_padding(tmp_path):
    model = tiny_model("roberta", pad_token_id=5, max_position_embeddings=22)
    encoder = load_model(write_model(tmp_path, model))
    assert encoder.config.max_position_embeddings == 16
    check(encoder, model)


@pytest.mark.parametrize("family", ["bert", "distilbert", "electra"])
def test_golden_model_sees_the_same_layers(family, tmp_path):
    changes = {"embedding_size": 8} if family == "electra" else {}
    model = tiny_model(family, **changes)
    encoder = load_model(write_model(tmp_path, model))
    sentence = random_sentence(encoder, 9)
    states = own_states(model, sentence)
    for index in range(2):
        x, y = layer_reference(encoder, sentence, index)
        trace = trace_layer(encoder, [sentence], index)
        for one, other in ((x, states[index]), (y, states[index + 1]), (trace.outputs, y), (trace.inputs, x)):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)
        assert layer_weights(encoder, index).heads == 4


@pytest.mark.parametrize(
    ("act", "name"),
    [
        ("gelu", "gelu"),
        ("gelu_new", "gelu_tanh"),
        ("gelu_fast", "gelu_tanh"),
        ("gelu_pytorch_tanh", "gelu_tanh"),
        ("relu", "relu"),
        ("silu", "silu"),
        ("swish", "silu"),
        ("quick_gelu", "quick_gelu"),
    ],
)
@pytest.mark.parametrize("family", ["bert", "distilbert"])
def test_activations_and_epsilons(family, act, name, tmp_path):
    changes = {"activation": act} if family == "distilbert" else {"hidden_act": act, "layer_norm_eps": 1e-3}
    model = tiny_model(family, **changes)
    encoder = load_model(write_model(tmp_path, model))
    assert encoder.activation.name == name
    assert encoder.config.layer_norm_eps == (1e-12 if family == "distilbert" else 1e-3)
    check(encoder, model)
    trace = trace_layer(encoder, [random_sentence(encoder, 9)], 0)
    activated = encoder.activation(trace.pre_activation)
    assert activated.dtype == np.float64
    np.testing.assert_allclose(activated, trace.activated, rtol=0, atol=1e-6)


def test_pruned_heads(tmp_path):
    """Heads that are left out of the checkpoint count nothing, as if their output had weights of zero."""
    model = tiny_model("bert")
    state = dict(model.state_dict())
    kept = [*range(5), *range(10, 15)]  # heads 0 and 2 of layer 1
    for name in ("query", "key", "value"):
        for part in ("weight", "bias"):
            state[f"encoder.layer.1.attention.self.{name}.{part}"] = state[
                f"encoder.layer.1.attention.self.{name}.{part}"
            ][kept]
    output = "encoder.layer.1.attention.output.dense.weight"
    state[output] = state[output][:, kept]
    with torch.no_grad():
        weight = model.encoder.layer[1].attention.output.dense.weight
        weight[:, 5:10] = 0
        weight[:, 15:] = 0
    encoder = load_model(write_model(tmp_path, model, state, pruned_heads={"1": [1, 3]}))
    assert not encoder.bert.encoder.layer[1].attention.self.value.weight[5:10].any()
    check(encoder, model)
    write_config(tmp_path, model, pruned_heads={"1": [4]})
    with pytest.raises(ModelError, match="pruned_heads must give heads from 0 to 3 by layer"):
        load_model(tmp_path)


@pytest.mark.parametrize("family", CLASSES)
def test_architecture_tells_the_family(family, tmp_path):
    model = tiny_model(family, "ForMaskedLM")
    encoder = load_model(write_model(tmp_path, model, model_type=None))
    assert encoder.family == family
    check(encoder, model)


@pytest.mark.parametrize(
    ("family", "kind", "found"),
    [
        ("bert", "ForMaskedLM", "bert"),
        ("roberta", "ForMaskedLM", "roberta"),
        ("xlm-roberta", "ForMaskedLM", "roberta"),
        ("distilbert", "Model", "distilbert"),
        ("electra", "ForPreTraining", "electra"),
    ],
)
def test_weight_names_tell_the_family(family, kind, found, tmp_path):
    model = tiny_model(family, kind)
    encoder = load_model(write_model(tmp_path, model, model_type=None, architectures=None))
    assert encoder.family == found
    check(encoder, model) if kind != "ForPreTraining" else check(encoder, model.electra)


def test_names_of_a_head_or_a_projection_tell_the_family_of_a_bare_model(tmp_path):
    model = tiny_model("electra", embedding_size=8)
    nothing = {"model_type": None, "architectures": ["OurOwnModel"]}
    assert load_model(write_model(tmp_path / "electra", model, **nothing)).family == "electra"
    whole = tiny_model("roberta", "ForMaskedLM").state_dict()
    state = {name.removeprefix("roberta."): tensor for name, tensor in whole.items()}
    folder = write_model(tmp_path / "roberta", tiny_model("roberta"), state, **nothing)
    assert load_model(folder).family == "roberta"


@pytest.mark.parametrize("family", ["bert", "roberta", "electra"])
def test_doubtful_family(family, tmp_path):
    folder = write_model(tmp_path, tiny_model(family), model_type=None, architectures=["OurOwnModel"])
    with pytest.raises(ModelError, match="must describe a BERT encoder by a model_type .* but has none"):
        load_model(folder)


def test_weights_of_another_family_than_the_config_says(tmp_path):
    model = tiny_model("bert")
    state = {f"roberta.{name}": tensor for name, tensor in model.state_dict().items()}
    with pytest.raises(ModelError, match="says bert and the weights are named roberta"):
        load_model(write_model(tmp_path, model, state))


@pytest.mark.parametrize(
    ("family", "change", "message"),
    [
        ("roberta", {"position_embedding_type": "relative_key_query"}, "position_embedding_type 'absolute'"),
        ("electra", {"is_decoder": True}, "is_decoder False"),
        ("bert", {"is_encoder_decoder": True}, "is_encoder_decoder False"),
        ("bert", {"model_type": "deberta-v2"}, "model_type bert, .*, not model_type 'deberta-v2'"),
        ("bert", {"model_type": "mpnet"}, "not model_type 'mpnet'"),
        ("bert", {"model_type": ["bert"]}, r"not model_type \['bert'\]"),
        ("bert", {"embedding_size": 8}, r"embedding_size must be the hidden size \(20\) in a bert, not 8"),
        ("electra", {"embedding_size": 0}, "embedding_size must be a positive integer, not 0"),
        ("distilbert", {"activation": "mish"}, "activation gelu, .* not hidden_act 'mish'"),
        ("bert", {"quantization_config": {"bits": 8}}, "fp32, fp16 or bf16, not quantization_config"),
        ("bert", {"auto_map": {"AutoModel": "new.Bert"}}, r"code of its own \(auto_map 'new.Bert'\)"),
        ("bert", {"layer_norm_eps": -1.0}, "layer_norm_eps must be a number from 0 to 1, not -1.0"),
        ("bert", {"layer_norm_eps": "small"}, "layer_norm_eps must be a number from 0 to 1, not 'small'"),
        ("bert", {"vocab_size": 10**30}, "vocab_size must be at most 1073741824, not 10"),
        ("bert", {"pad_token_id": 40}, "pad_token_id must be from 0 to 39, not 40"),
        ("roberta", {"pad_token_id": None}, "pad_token_id must be from 0 to 39, not None"),
        ("roberta", {"max_position_embeddings": 2}, "must be more than 2, the first token's position"),
        ("distilbert", {"n_heads": 3}, r"multiple of the heads \(3\), not 20"),
        ("distilbert", {"hidden_dim": None}, "must give hidden_dim, but doesn't"),
        ("bert", {"pruned_heads": {"7": [1]}}, "pruned_heads must give heads"),
        ("bert", {"pruned_heads": [1]}, r"pruned_heads must give heads .* not \[1\]"),
    ],
)
def test_refused_configurations(family, change, message, tmp_path):
    write_config(tmp_path, tiny_model(family), **change)  # no weights: it is refused before they are read
    with pytest.raises(ModelError, match=message) as refusal:
        load_model(tmp_path)
    assert "\n" not in str(refusal.value)


def test_sizes_are_checked_before_anything_is_built(tmp_path):
    write_model(tmp_path, tiny_model("bert"), num_hidden_layers=10**9)
    with pytest.raises(ModelError, match="encoder.layer.999999999.attention.self.query.weight is missing"):
        load_model(tmp_path)
    write_model(tmp_path, tiny_model("bert"), intermediate_size=10**9)
    with pytest.raises(ModelError, match=r"intermediate.dense.weight has the shape \[24, 20\] instead of"):
        load_model(tmp_path)
    write_model(tmp_path, tiny_model("bert"), hidden_size=10**9)
    with pytest.raises(ModelError, match=r"has the shape \[40, 20\] instead of \[40, 1000000000\]"):
        load_model(tmp_path)


def test_distilbert_names_what_is_missing_in_its_own_terms(tmp_path):
    model = tiny_model("distilbert")
    state = dict(model.state_dict())
    del state["transformer.layer.1.sa_layer_norm.bias"]
    with pytest.raises(ModelError, match="but transformer.layer.1.sa_layer_norm.bias is missing"):
        load_model(write_model(tmp_path, model, state))


def test_roberta_position_table_of_another_length(tmp_path):
    folder = write_model(tmp_path, tiny_model("roberta"), max_position_embeddings=514)
    with pytest.raises(ModelError, match=r"has the shape \[18, 20\] instead of \[514, 20\]"):
        load_model(folder)
