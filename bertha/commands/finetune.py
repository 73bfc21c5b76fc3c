"""Fine-tunes a checkpoint for a task: a folder that Bertha and Hugging Face's classes load."""

import sys
from pathlib import Path

from bertha.arguments import integer, number, within
from bertha.progress import progress_bar


def add_arguments(parser) -> None:
    parser.add_argument(
        "--model",
        default="minilm",
        help="minilm (default), a folder, or a Hugging Face name in the local cache",
    )
    parser.add_argument(
        "--task",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="TSV files in GLUE's form or label<TAB>text; its test file isn't looked at",
    )
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder for the model")
    parser.add_argument("--seed", type=within(0, 2**32 - 1), default=0, help="default: 0")
    parser.add_argument("--epochs", type=integer, default=3, help="default: 3")
    parser.add_argument("--batch", type=integer, default=32, help="rows of a step (default: 32)")
    parser.add_argument("--rate", type=number, default=1e-4, help="largest learning rate (default: 0.0001)")
    parser.add_argument("--tokens", type=within(3, 512), help="to which texts are cut (default: the model's)")
    parser.add_argument("--train", type=within(2, 999_999), help="most rows to train with (default: all)")


def run(options) -> int:
    from bertha.models.tasks import read_task
    from bertha.specialise.finetune import FinetuneOptions, finetune
    from bertha.specialise.parts import majority_rate, training_parts

    chosen = FinetuneOptions(
        seed=options.seed,
        epochs=options.epochs,
        batch=options.batch,
        rate=options.rate,
        longest=options.tokens,
    )
    training = training_parts(read_task(options.task)).limited(fit=options.train)
    rows = len(training.judge.labels)
    print(
        f"{training.name}: {len(training.classes)} classes, {len(training.fit.labels):,} rows to train with, "
        f"{rows:,} to judge epochs by, {100 * majority_rate(training.judge.labels):.1f} % of them the most frequent"
    )
    with progress_bar(sys.stderr, "fine-tuning") as advance:
        finetune(options.model, training, options.output, chosen, notify=_print_epoch, advance=advance)
    print(f"model  {options.output}")
    return 0


def _print_epoch(epoch):
    print(
        f"epoch {epoch.number + 1}: training loss {epoch.train_loss:.4f}, judged {100 * epoch.accuracy:.2f} % right, "
        f"loss {epoch.loss:.4f}",
        flush=True,
    )
