"""Fine-tuning of a checkpoint for a task: PyTorch, Hugging Face's model classes, AdamW, the best epoch kept."""

import hashlib
import json
import random
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from transformers import AutoModelForSequenceClassification
from transformers.utils import logging as transformers_logging

from bertha.errors import UserError
from bertha.models.encoder import Encoder, load_model, model_folder
from bertha.models.folders import transformer_folder
from bertha.specialise.batches import by_length, label_sentences, pad_batch

__all__ = ["Epoch", "FinetuneOptions", "finetune"]

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "sentencepiece.bpe.model",
)
STATE = "unfinished.pt"
"""In the folder that is written to: what the next epoch starts from."""


transformers_logging.disable_progress_bar()


@dataclass(frozen=True, kw_only=True)
class FinetuneOptions:
    """How a model is fine-tuned.

    Parameters
    ----------
    seed : int
        Of the new head, dropout and the order of rows.
    epochs, batch : int
    rate : float
        Largest learning rate: it rises over the first tenth of all steps, then falls to 0.
    decay : float
        Weight decay of matrices.
    longest : int or None
        Tokens to which texts are cut.
    """

    seed: int = 0
    epochs: int = 3
    batch: int = 32
    rate: float = 1e-4
    decay: float = 0.01
    longest: int | None = None

    def __post_init__(self):
        for name in ("epochs", "batch"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} must be at least 1, not {getattr(self, name)}")
        if not 0 < self.rate < 1:
            raise UserError(f"the learning rate must be above 0 and below 1, not {self.rate:g}")


@dataclass(frozen=True)
class Epoch:
    """What an epoch came to: mean training loss, and accuracy and mean loss on the rows that judge."""

    number: int
    train_loss: float
    accuracy: float
    loss: float


def finetune(name, training, folder, options=None, *, notify=None, advance=None) -> list[Epoch]:
    """Fine-tunes a model for a task and writes it to a folder, as Hugging Face does.

    After every epoch all that the next one starts from is kept in the folder. The same call goes on from there and comes
    to the same weights, on the same machine, as if it had never been stopped. The epoch with the highest accuracy on
    `training.judge` stays; of equal ones the one with the lowest loss.

    Parameters
    ----------
    name : str or Path
        Of the model, see `bertha.models.encoder.load_model`; its weights are trained ones.
    training : Training
    folder : Path
    options : FinetuneOptions, optional
    notify : callable, optional
        Called with every `Epoch`, those of an earlier call too.
    advance : callable, optional
        Called with how many steps of how many are done.

    Raises
    ------
    UserError
        If the model can't be fine-tuned, or the folder belongs to another fine-tuning.
    """
    options, folder = options or FinetuneOptions(), Path(folder)
    encoder = load_model(name)
    if not encoder.trained or encoder.tokenizer is None:
        raise UserError(f"a model to fine-tune must be a checkpoint with a tokenizer, but {name} isn't")
    run = _Run(encoder, transformer_folder(model_folder(name)), training, options)
    done = run.resume(folder)
    for epoch in done:
        (notify or _ignore)(epoch)
    while len(done) < options.epochs:
        epoch = run.epoch(len(done), advance or _ignore)
        best = not done or _merit(epoch) > max(map(_merit, done))
        done.append(epoch)
        if best:
            run.write(folder)
        run.keep(folder, done)
        (notify or _ignore)(epoch)
    (folder / STATE).unlink(missing_ok=True)
    return done


def _merit(epoch):
    return epoch.accuracy, -epoch.loss


def _ignore(*_):
    pass


class _Run:
    """A fine-tuning under way."""

    def __init__(self, encoder: Encoder, source, training, options):
        self.options, self.source, self.encoder, self.training = options, source, encoder, training
        self.fit, self.judge = (
            label_sentences(encoder, part, options.longest) for part in (training.fit, training.judge)
        )
        torch.manual_seed(options.seed)
        self.model = AutoModelForSequenceClassification.from_pretrained(
            source,
            num_labels=len(training.classes),
            id2label=dict(enumerate(training.classes)),
            label2id={label: number for number, label in enumerate(training.classes)},
            ignore_mismatched_sizes=True,  # another task's head
            local_files_only=True,
            dtype=torch.float32,
        )
        self.steps = options.epochs * -(-len(self.fit) // options.batch)
        decayed = [parameter for parameter in self.model.parameters() if parameter.ndim > 1]
        others = [parameter for parameter in self.model.parameters() if parameter.ndim <= 1]
        self.optimiser = torch.optim.AdamW(
            [{"params": decayed, "weight_decay": options.decay}, {"params": others, "weight_decay": 0.0}],
            lr=options.rate,
        )
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimiser, self._share_of_rate)

    def _share_of_rate(self, step):
        rising = max(1, self.steps // 10)
        return (step + 1) / rising if step < rising else (self.steps - step) / max(1, self.steps - rising)

    @property
    def key(self) -> str:
        """Of everything that the result depends on."""
        parts = [asdict(self.options), self.encoder.digest, asdict(self.training)]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def epoch(self, number, advance: Callable) -> Epoch:
        """Trains with all rows once."""
        batches = list(
            by_length(self.fit, self.options.batch, random.Random(f"{self.options.seed} {number}"))
        )
        numbers = self.training.numbers(self.training.fit)
        self.model.train()
        total = 0.0
        for done, rows in enumerate(batches, number * len(batches) + 1):
            batch = self._batch(self.fit, numbers, rows)
            loss = torch.nn.functional.cross_entropy(self._logits(batch), batch.labels)
            self.optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimiser.step()
            self.schedule.step()
            total += loss.item() * len(rows)
            advance(done, self.steps)
        return Epoch(number, total / len(self.fit), *self._judged())

    def _judged(self):
        numbers = self.training.numbers(self.training.judge)
        self.model.eval()
        right, total = 0, 0.0
        with torch.inference_mode():
            for rows in by_length(self.judge, 64):
                batch = self._batch(self.judge, numbers, rows)
                logits = self._logits(batch)
                right += int((logits.argmax(dim=1) == batch.labels).sum())
                total += torch.nn.functional.cross_entropy(logits, batch.labels, reduction="sum").item()
        return right / len(numbers), total / len(numbers)

    def _batch(self, sentences, numbers, rows):
        return pad_batch(sentences, numbers, rows, self.encoder.config.pad_token_id or 0)

    def _logits(self, batch):
        segments = {"token_type_ids": batch.segments} if self.encoder.has_segments else {}
        return self.model(input_ids=batch.ids, attention_mask=batch.mask, **segments).logits

    def write(self, folder):
        """The model as it is, with its tokenizer, in a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        self.model.save_pretrained(folder)
        for name in TOKENIZER_FILES:
            if (self.source / name).is_file():
                shutil.copyfile(self.source / name, folder / name)

    def keep(self, folder, done):
        """All that the next epoch starts from."""
        state = {
            "key": self.key,
            "epochs": [asdict(epoch) for epoch in done],
            "model": self.model.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "schedule": self.schedule.state_dict(),
            "random": torch.get_rng_state(),
        }
        partial = folder / f"{STATE}.partial"
        torch.save(state, partial)
        partial.replace(folder / STATE)

    def resume(self, folder) -> list[Epoch]:
        """Takes what `keep` left, and gives the epochs so far."""
        path = folder / STATE
        if not path.is_file():
            if folder.is_dir() and any(folder.iterdir()):
                raise UserError(f"-o must be a new or empty folder, but {str(folder)!r} holds something")
            return []
        try:
            state = torch.load(path, weights_only=True)
        except Exception as error:  # a damaged file can raise nearly anything in there
            raise UserError(f"{path} must be an unfinished fine-tuning, but can't be read: {error}") from None
        if state["key"] != self.key:
            raise UserError(f"{path} must be of the same fine-tuning, but has another model, task or option")
        self.model.load_state_dict(state["model"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.schedule.load_state_dict(state["schedule"])
        torch.set_rng_state(state["random"])
        return [Epoch(**epoch) for epoch in state["epochs"]]
