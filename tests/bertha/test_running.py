"""From texts to arrays: both backends, heads, reports."""

import re

import numpy as np
import pytest

import bertha
from bertha.backends import run_integers
from bertha.errors import UserError
from bertha.golden import integer_model
from bertha.models.embedding import float_hidden_states
from bertha.models.text import TextError
from bertha.quantize.quantizer import Settings
from bertha.results import sentence_macs
from tests.bertha.small import TEXTS, small_folder, small_model

LABELS = {0: "no", 1: "yes", 2: "perhaps"}


@pytest.fixture(scope="module")
def quantized(tmp_path_factory):
    return small_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def artifact(quantized):
    return bertha.compile_model(quantized, "tiny4", 24)


def alone(quantized, text, tokens):
    """Hidden states of a text by `run_model` of the integer model, float64."""
    model = quantized.model
    (sentence,) = quantized.host.tokenize([text], tokens)
    rows = integer_model.quantise_input(quantized.host.embed(sentence), model.embedding_scale)
    return integer_model.run_model(model, rows)["output16"] * model.output_scale


def test_embeddings_are_the_pooled_integers(quantized):
    result = bertha.run_model(quantized, TEXTS, hidden=True)
    assert (result.embeddings.dtype, result.embeddings.shape) == (np.float32, (len(TEXTS), 20))
    for number, text in enumerate(TEXTS):
        states = alone(quantized, text, 64)
        np.testing.assert_array_equal(result.hidden[number], states.astype(np.float32))
        np.testing.assert_allclose(result.embeddings[number], states.mean(axis=0), rtol=0, atol=1e-5)
    assert np.ptp(result.embeddings, axis=0).max() > 0.05  # the texts differ
    assert (result.report.backend, result.report.preset, result.report.runs) == ("integer", "", ())
    assert result.report.cycles is None and result.report.bit_exact is None
    assert result.probabilities is None and result.predictions is None


def test_from_a_checkpoint_to_the_accelerator(tmp_path):
    """The real quantiser: the accelerator's embeddings are near PyTorch's."""
    encoder = bertha.load_model(small_folder(tmp_path))
    settings = Settings(texts=(*TEXTS, "good , bad and slow films were as good as cafes"))
    quantized = bertha.quantize_model(encoder, "w8a8", settings, folder=tmp_path / "kept")
    assert len(list((tmp_path / "kept").iterdir())) == 1
    compiled = bertha.compile_model(quantized, "tiny4", 24)
    result = bertha.run_model(compiled, TEXTS, backend="rtl", check=True)
    assert result.report.bit_exact and result.report.recipe == "w8a8"
    for sentence, vector in zip(result.sentences, result.embeddings, strict=True):
        right = encoder.pooling(float_hidden_states(encoder, sentence)[-1], sentence.mask)
        assert vector @ right > 0.999 * np.linalg.norm(vector) * np.linalg.norm(right)


@pytest.mark.parametrize("family", ["bert", "electra"])
def test_both_backends_give_equal_bytes(tmp_path, family):
    changes = {"embedding_size": 12} if family == "electra" else {}
    compiled = bertha.compile_model(small_model(tmp_path, family, **changes), "tiny4", 24)
    texts = [*TEXTS, "was it good ? " * 9]
    integer = bertha.run_model(compiled, texts, hidden=True)
    calls = []
    rtl = bertha.run_model(
        compiled, texts, backend="rtl", check=True, hidden=True, progress=lambda *sizes: calls.append(sizes)
    )
    assert rtl.report.bit_exact and rtl.report.first_difference is None
    np.testing.assert_array_equal(rtl.embeddings, integer.embeddings)
    for mine, right in zip(rtl.hidden, integer.hidden, strict=True):
        np.testing.assert_array_equal(mine, right)
    report = rtl.report
    assert (report.backend, report.preset, report.truncated) == ("rtl", "tiny4", 1)
    assert sorted(number for run in report.runs for number in run.sentences) == list(range(len(texts)))
    assert sum(run.tokens for run in report.runs) == report.tokens == sum(s.tokens for s in rtl.sentences)
    assert all(run.tokens <= 24 for run in report.runs)
    assert report.cycles == sum(run.counters.cycles for run in report.runs) > 0
    assert 0.5 < report.cycles / report.predicted_cycles < 2
    assert report.useful_utilization == report.macs / (16 * report.cycles)
    assert calls and calls[0][0] == 0 and calls[0][1] == report.predicted_cycles
    assert set(report.as_dict()["runs"][0]) >= {"sentences", "tokens", "cycles", "gemm_busy"}


def test_a_difference_is_told(artifact, monkeypatch):
    def wrong(model, inputs, **options):
        outputs = run_integers(model, inputs)
        outputs[2][1, 7] += 1
        return outputs

    monkeypatch.setattr("bertha.running.run_integers", wrong)
    report = bertha.run_model(artifact, TEXTS, check=True).report
    assert report.bit_exact is False
    assert re.fullmatch(r"sentence 2, token 1, channel 7: -?\d+ instead of -?\d+", report.first_difference)


def test_macs_of_sentences_are_those_of_the_program(artifact, tmp_path):
    layers = artifact.model.layers
    assert sentence_macs(artifact.model, 24) == artifact.program.macs
    ranges = np.zeros((24, 2), dtype=np.int64)
    ranges[:7], ranges[7:20] = (0, 7), (7, 20)
    own = sum(command.macs(ranges) for command in artifact.program.commands)
    assert own == sentence_macs(artifact.model, 7) + sentence_macs(artifact.model, 13)
    assert len(layers) == 2


def test_many_sentences_are_run_in_batches(quantized, monkeypatch):
    monkeypatch.setattr("bertha.backends._BATCH", 30)
    calls = []
    few = bertha.run_model(quantized, TEXTS * 5, progress=lambda *sizes: calls.append(sizes))
    monkeypatch.undo()
    np.testing.assert_array_equal(few.embeddings, bertha.run_model(quantized, TEXTS * 5).embeddings)
    assert calls[-1] == (30, 30) and len(calls) > 5


def test_normalisation(quantized):
    plain = bertha.run_model(quantized, TEXTS).embeddings
    unit = bertha.run_model(quantized, TEXTS, normalize=True).embeddings
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(unit * np.linalg.norm(plain, axis=1)[:, None], plain, atol=1e-5)


def test_a_classification_head(tmp_path):
    quantized = small_model(tmp_path, kind="ForSequenceClassification", id2label=LABELS)
    pair = ("the film was slow", "a bad film .")
    result = bertha.run_model(quantized, ["a good film", pair])
    assert result.labels == ("no", "yes", "perhaps")
    np.testing.assert_allclose(result.probabilities.sum(axis=1), 1, atol=1e-6)
    for number, text in enumerate(["a good film", pair]):
        expected = quantized.host.classifier.probabilities(alone(quantized, text, 64).astype(np.float32))
        np.testing.assert_array_equal(result.probabilities[number], expected)
    assert result.predictions == [result.labels[row.argmax()] for row in result.probabilities]
    assert result.sentences[1].segments.max() == 1


def test_texts_are_cut_to_the_program(artifact, quantized):
    long = "a film " * 40
    (sentence,) = bertha.run_model(artifact, long).sentences
    assert (sentence.tokens, sentence.truncated) == (24, True)
    (sentence,) = bertha.run_model(quantized, long).sentences
    assert (sentence.tokens, sentence.truncated) == (64, True)


def test_no_texts_give_no_rows(artifact):
    assert bertha.run_model(artifact, []).embeddings.shape == (0, 20)


def test_nothing_is_printed(artifact, capfd):
    bertha.run_model(artifact, TEXTS)
    bertha.Embedder(artifact).encode(TEXTS)
    assert capfd.readouterr() == ("", "")


def test_refusals(artifact, quantized):
    with pytest.raises(UserError, match="backend must be one of integer, rtl, not 'gpu'"):
        bertha.run_model(artifact, TEXTS, backend="gpu")
    for options in ({"backend": "rtl"}, {"check": True}):
        with pytest.raises(UserError, match="the accelerator needs a program: compile the model first"):
            bertha.run_model(quantized, TEXTS, **options)
    with pytest.raises(TextError, match="a text must have at least one token, but '' has none"):
        bertha.run_model(artifact, ["a", ""])
    with pytest.raises(UserError, match="tokens must be an integer from 1, not 0"):
        bertha.compile_model(quantized, "tiny4", 0)
    with pytest.raises(UserError, match="preset must be one of"):
        bertha.compile_model(quantized, "huge")
    with pytest.raises(UserError, match="must fit the scratchpad"):
        bertha.compile_model(quantized, "tiny4", 100_000)
