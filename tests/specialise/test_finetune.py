"""Fine-tuning: what it writes, that it goes on where it was stopped, and what it refuses."""

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification

from bertha.cli import main
from bertha.errors import UserError
from bertha.models.encoder import load_model
from bertha.specialise import finetune as finetuning
from bertha.specialise.batches import label_sentences
from bertha.specialise.rows import embed_rows, score
from tests.specialise.tasks import OPTIONS


class Stopped(Exception):
    pass


def test_hugging_face_and_bertha_load_the_same(tuned, encoder, training):
    sentences = label_sentences(encoder, training.judge, 16)
    numbers = training.numbers(training.judge)
    model = AutoModelForSequenceClassification.from_pretrained(tuned).eval()
    batches = embed_rows(encoder, sentences, numbers)
    ours = score(encoder.classifier, encoder.bert.encoder.layer, batches)
    order = sorted(range(len(sentences)), key=lambda row: sentences[row].tokens)
    with torch.inference_mode():
        losses = [
            torch.nn.functional.cross_entropy(
                model(input_ids=torch.from_numpy(sentences[row].ids)[None]).logits,
                torch.tensor([numbers[row]]),
            )
            for row in order
        ]
    assert torch.allclose(torch.stack(losses), ours.losses, atol=1e-5)
    assert load_model(tuned).classifier.labels == ("bad", "good")


def test_it_goes_on_where_it_was_stopped(model, training, tuned, tmp_path):
    def stop(epoch):
        raise Stopped

    with pytest.raises(Stopped):
        finetuning.finetune(model, training, tmp_path / "model", OPTIONS, notify=stop)
    with pytest.raises(UserError, match="must be of the same fine-tuning"):
        other = finetuning.FinetuneOptions(epochs=4, batch=8, rate=0.02, longest=16)
        finetuning.finetune(model, training, tmp_path / "model", other)
    epochs = finetuning.finetune(model, training, tmp_path / "model", OPTIONS)
    assert [epoch.number for epoch in epochs] == [0, 1, 2, 3]
    whole, resumed = (load_file(folder / "model.safetensors") for folder in (tuned, tmp_path / "model"))
    assert whole.keys() == resumed.keys() and all(torch.equal(whole[name], resumed[name]) for name in whole)
    assert not (tmp_path / "model" / finetuning.STATE).exists()


@pytest.mark.parametrize(
    "rows, sentence",
    [
        ({"train": "just a text\n", "test": "just a text\n"}, "must have a header with GLUE's names"),
        ({"train": "a\tone\na\ttwo\n", "test": "a\tthree\n"}, "must have two classes at least"),
        ({"train": "a\tone\na\ttwo\n", "test": "b\tthree\n"}, "two classes at least among the 2 rows"),
        ({"train": "a\tone\nb\ttwo\n", "test": "c\tthree\n"}, "must train with every label of its test set"),
        ({"train": "a\tone\nb\ttwo\n", "test": ""}, "must hold labelled texts, but is empty"),
    ],
    ids=["no labels", "one class", "one class to train with", "unknown class", "empty test set"],
)
@pytest.mark.parametrize("command", ["finetune", "specialise"])
def test_tasks_that_are_refused(command, rows, sentence, tmp_path, capsys):
    folder = tmp_path / "task"
    folder.mkdir()
    for name, content in rows.items():
        (folder / f"{name}.tsv").write_text(content)
    model = ["--model", "minilm"] if command == "finetune" else ["minilm"]
    assert main([command, *model, "--task", str(folder), "-o", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and sentence in error and error.count("\n") == 1
