"""A small task of installed film reviews, a tiny BERT, and that BERT fine-tuned for it: a few seconds."""

import json
import random

import torch
from transformers import BertModel

from bertha.models import text
from bertha.specialise.finetune import FinetuneOptions, finetune
from tests.models.checkpoints import tiny_config, write_model

__all__ = ["tiny_folder", "tuned_folder", "write_task"]

WORDS = 300
"""Of the reviews, those that tell most about what a review says, beside [PAD], [UNK], [CLS] and [SEP]."""

OPTIONS = FinetuneOptions(epochs=4, batch=8, rate=0.005, longest=16)


def write_task(folder, rows=480, seed=0, wrong_test=False):
    """Film reviews of one sentence as label<TAB>text, two thirds to train with; `wrong_test` swaps the test labels."""
    reviews = [review for review in text.reviews("calibration") if review.short]
    chosen = random.Random(seed).sample(reviews, rows)
    lines = [(("good" if review.positive else "bad"), review.text.replace("\t", " ")) for review in chosen]
    folder.mkdir(parents=True, exist_ok=True)
    cut = 2 * rows // 3
    test = lines[cut:]
    if wrong_test:
        test = [("good" if label == "bad" else "bad", row) for label, row in test]
    for name, part in (("train", lines[:cut]), ("test", test)):
        content = "".join(f"{label}\t{row}\n" for label, row in part)
        (folder / f"{name}.tsv").write_text(content, encoding="utf-8")
    return folder


def tiny_folder(folder):
    """A BERT of two layers, four heads of five channels and 24 neurons, with random weights and a tokenizer."""
    counts = {}
    for review in text.reviews("calibration"):
        if review.short:
            for word in set(review.text.lower().split()):
                counts.setdefault(word, [0, 0])[review.positive] += 1
    worth = {word: (bad - good) ** 2 / (bad + good) for word, (bad, good) in counts.items() if word.isalpha()}
    words = sorted(worth, key=lambda word: (-worth[word], word))[:WORDS]
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *words]
    config = tiny_config(
        "bert", vocab_size=len(vocabulary), max_position_embeddings=64, initializer_range=0.1
    )
    torch.manual_seed(0)
    write_model(folder, BertModel(config))
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": True}))
    return folder


def tuned_folder(model, training, folder):
    """The tiny model, fine-tuned."""
    finetune(model, training, folder, OPTIONS)
    return folder
