"""Classification heads give what Hugging Face's own classes give."""

import numpy as np
import pytest
import torch

from bertha.models.embedding import float_hidden_states
from bertha.models.encoder import ModelError, load_model
from tests.models.checkpoints import CLASSES, random_sentence, tiny_model, write_config, write_model

LABELS = {0: "no", 1: "yes", 2: "perhaps"}


def own_scores(model, sentence):
    with torch.inference_mode():
        return model(
            input_ids=torch.from_numpy(sentence.ids)[None],
            attention_mask=torch.from_numpy(sentence.mask)[None].long(),
        ).logits[0]


@pytest.mark.parametrize("family", CLASSES)
def test_each_family_equals_its_own_class(family, tmp_path):
    model = tiny_model(family, "ForSequenceClassification", id2label=LABELS)
    encoder = load_model(write_model(tmp_path, model))
    classifier = encoder.classifier
    assert (classifier.labels, classifier.problem) == (tuple(LABELS.values()), "single_label_classification")
    for tokens, padding in ((3, 0), (7, 4)):
        sentence = random_sentence(encoder, tokens, padding)
        hidden, right = float_hidden_states(encoder, sentence)[-1], own_scores(model, sentence)
        assert classifier(hidden).dtype == np.float32
        np.testing.assert_allclose(classifier(hidden), right.numpy(), rtol=0, atol=1e-5)
        np.testing.assert_allclose(
            classifier.probabilities(hidden), torch.softmax(right, 0).numpy(), rtol=0, atol=1e-6
        )
        assert classifier.label(hidden) == LABELS[int(right.argmax())]


@pytest.mark.parametrize("prefix", ["module.", "model.module."])
def test_head_behind_a_wrapper(prefix, tmp_path):
    model = tiny_model("bert", "ForSequenceClassification")
    state = {f"{prefix}{name}": tensor for name, tensor in model.state_dict().items()}
    encoder = load_model(write_model(tmp_path, model, state))
    sentence = random_sentence(encoder, 6)
    scores = encoder.classifier(float_hidden_states(encoder, sentence)[-1])
    np.testing.assert_allclose(scores, own_scores(model, sentence).numpy(), rtol=0, atol=1e-5)


def test_several_labels_at_once_and_regression(tmp_path):
    hidden = np.random.default_rng(2).normal(size=(4, 20))
    model = tiny_model("bert", "ForSequenceClassification", problem_type="multi_label_classification")
    many = load_model(write_model(tmp_path / "many", model)).classifier
    right = 1 / (1 + np.exp(-many(hidden)))
    np.testing.assert_allclose(many.probabilities(hidden), right, rtol=0, atol=1e-6)
    model = tiny_model("bert", "ForSequenceClassification", num_labels=1)
    one = load_model(write_model(tmp_path / "one", model)).classifier
    assert one.problem == "regression" and one.probabilities(hidden) == one(hidden)


@pytest.mark.parametrize("kind", ["Model", "ForMaskedLM", "ForTokenClassification", "ForMultipleChoice"])
def test_models_without_such_a_head(kind, tmp_path):
    assert load_model(write_model(tmp_path, tiny_model("bert", kind))).classifier is None


def test_weights_tell_where_architectures_do_not(tmp_path):
    model = tiny_model("distilbert", "ForSequenceClassification", num_labels=3)
    folder = write_model(tmp_path, model, architectures=None, id2label=None)
    assert load_model(folder).classifier.labels == ("LABEL_0", "LABEL_1", "LABEL_2")
    folder = write_model(tmp_path, tiny_model("bert", "ForTokenClassification"), architectures=None)
    assert load_model(folder).classifier is None


def test_refused_heads(tmp_path):
    model = tiny_model("roberta", "ForSequenceClassification")
    state = dict(model.state_dict())
    del state["classifier.out_proj.bias"]
    write_model(tmp_path, model, state)
    with pytest.raises(ModelError, match=r"classification head, but classifier.out_proj.bias is missing"):
        load_model(tmp_path)
    write_model(tmp_path, model)
    for change, message in (
        (
            {"id2label": {"0": "a", "1": "b", "2": "c"}},
            "must name the head's 2 labels in id2label, but names 3",
        ),
        ({"id2label": ["a", "b"]}, "must give labels by number in id2label"),
        ({"problem_type": "ranking"}, "must give a problem_type of regression, .*, not 'ranking'"),
    ):
        write_config(tmp_path, model, **change)
        with pytest.raises(ModelError, match=message):
            load_model(tmp_path)
