"""Runs a compiled model on texts: embeddings, hidden states, or labels."""

import json
import os
import sys
import uuid
from pathlib import Path

import numpy as np

from bertha.errors import UserError
from bertha.models.text import parse_sentences, read_sentences
from bertha.progress import progress_bar
from bertha.rtl.config import preset
from bertha.running import BACKENDS, run_model
from bertha.runtime.artifact import load_artifact

_SHOWN_VALUES = 6
_SHOWN_LABELS = 5
_SHOWN_TEXT = 40
_STDIN = "-"


def add_arguments(parser) -> None:
    parser.add_argument("artifact", type=Path, help="file that bertha compile wrote")
    parser.add_argument("texts", nargs="*", metavar="text", help="a sentence, or - for standard input")
    parser.add_argument("--input", type=Path, help="UTF-8 text file, a sentence a line; - is standard input")
    parser.add_argument(
        "--pairs", action="store_true", help="a tab separates the two texts of a pair, which are one sentence"
    )
    parser.add_argument(
        "--backend",
        default=BACKENDS[0],
        help="integer: the bit-exact model, fast (default); rtl: the accelerator in simulation",
    )
    parser.add_argument("--check", action="store_true", help="run both, and compare every byte")
    parser.add_argument("--preset", help="the accelerator that the model must be compiled for")
    parser.add_argument("--hidden", action="store_true", help="hidden states of the tokens too")
    parser.add_argument("--normalize", action="store_true", help="embeddings of length 1 in any case")
    parser.add_argument(
        "--output", "-o", type=Path, help="file.npy for the embeddings, file.npz for all results"
    )
    parser.add_argument("--json", action="store_true", help="print all results as JSON")


def run(options) -> int:
    if options.preset is not None:
        preset(options.preset)
    _check_output(options)
    texts = _texts(options)
    artifact = load_artifact(options.artifact, options.preset)
    with progress_bar(sys.stderr, "simulating" if options.backend == "rtl" else "running") as progress:
        result = run_model(
            artifact,
            texts,
            backend=options.backend,
            check=options.check,
            normalize=True if options.normalize else None,
            hidden=options.hidden,
            progress=progress,
            notify=lambda what: print(f"{what} ...", file=sys.stderr, flush=True),
        )
    for sentence in result.sentences:
        if sentence.truncated:
            print(f"warning: cut to {sentence.tokens} tokens: {_shown(sentence.text)!r}", file=sys.stderr)
    if options.output:
        _write(options.output, result)
    if options.json:
        print(json.dumps(_as_json(result), ensure_ascii=False))
    else:
        if not options.output:
            _print_results(artifact, result)
        _print_report(result.report, options.output)
    if result.report.bit_exact is False:
        print(
            f"error: the accelerator differs from the integer model: {result.report.first_difference}",
            file=sys.stderr,
        )
        return 1
    return 0


def _check_output(options):
    if options.output is None:
        return
    if options.output.suffix not in (".npy", ".npz"):
        raise UserError(f"output must be a .npy or .npz file, not {str(options.output)!r}")
    if not options.output.parent.is_dir():
        raise UserError(f"output must be in a folder that exists, but {str(options.output.parent)!r} doesn't")
    if options.hidden and options.output.suffix == ".npy":
        raise UserError("hidden states of several lengths need a .npz file: --output name.npz")


def _texts(options):
    """The texts of the command line, then those of the file; pairs as tuples."""
    texts = []
    for text in options.texts:
        texts += _read_stdin() if text == _STDIN else [text]
    if options.input is not None:
        texts += _read_stdin() if str(options.input) == _STDIN else read_sentences(options.input)
    if not texts:
        raise UserError("there must be a text, --input or - to run the model on, but there is none")
    for text in texts:
        if not text.strip():
            raise UserError("a text must not be empty")
    return [_pair(text) for text in texts] if options.pairs else texts


def _read_stdin():
    return parse_sentences(sys.stdin.buffer.read(), "standard input")


def _pair(text):
    parts = text.split("\t")
    if len(parts) != 2 or not all(part.strip() for part in parts):
        raise UserError(f"a pair must be two texts with a tab between them, not {_shown(text)!r}")
    return tuple(parts)


def _write(path, result):
    """The arrays, whole or not at all."""
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}.partial")
    try:
        with open(partial, "xb") as file:
            if path.suffix == ".npy":
                np.save(file, result.embeddings)
            else:
                np.savez(file, **_arrays(result))
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def _arrays(result):
    arrays = {
        "embeddings": result.embeddings,
        "tokens": np.array([sentence.tokens for sentence in result.sentences]),
    }
    if result.probabilities is not None:
        arrays |= {"probabilities": result.probabilities, "labels": np.array(result.labels)}
    if result.hidden is not None:
        arrays["hidden"] = np.concatenate(result.hidden)  # one sentence after another
    return arrays


def _as_json(result):
    found = []
    for number, sentence in enumerate(result.sentences):
        entry = {
            "text": sentence.text,
            "tokens": sentence.tokens,
            "truncated": sentence.truncated,
            "embedding": _numbers(result.embeddings[number]),
        }
        if result.probabilities is not None:
            entry["label"] = result.predictions[number]
            entry["probabilities"] = dict(zip(result.labels, _numbers(result.probabilities[number])))
        if result.hidden is not None:
            entry["hidden"] = [_numbers(row) for row in result.hidden[number]]
        found.append(entry)
    return {"sentences": found, "report": result.report.as_dict()}


def _numbers(row):
    """float32 numbers in as few digits as tell them apart."""
    return [float(str(value)) for value in row]


def _print_results(artifact, result):
    for number, sentence in enumerate(result.sentences):
        print(f"{_shown(sentence.text)}  ({sentence.tokens} tokens)")
        if result.probabilities is None:
            print(f"  {_values(result.embeddings[number])}")
        else:
            print(f"  {_label_line(result.labels, result.probabilities[number])}")
        if result.hidden is not None:
            for place, row in zip(sentence.ids, result.hidden[number], strict=True):
                print(f"  {artifact.host.tokenizer.id_to_token(int(place)):16} {_values(row)}")


def _values(row):
    more = f" ... ({len(row)} values)" if len(row) > _SHOWN_VALUES else ""
    return " ".join(f"{value:8.4f}" for value in row[:_SHOWN_VALUES]) + more


def _label_line(labels, probabilities):
    order = np.argsort(-probabilities, kind="stable")
    more = f"  ... ({len(labels)} labels)" if len(labels) > _SHOWN_LABELS else ""
    return "  ".join(f"{labels[place]} {probabilities[place]:.4f}" for place in order[:_SHOWN_LABELS]) + more


def _print_report(report, output):
    parts = [f"{report.sentences:,} sentences, {report.tokens:,} tokens in {report.seconds:.1f} s"]
    if report.runs:
        parts.append(
            f"{len(report.runs)} runs on {report.preset or 'the accelerator'}: {report.cycles:,} cycles, "
            f"useful utilisation {report.useful_utilization:.4f}"
        )
    if report.bit_exact is not None:
        parts.append(
            "every byte equals the integer model" if report.bit_exact else "differs from the integer model"
        )
    if not report.runs:
        parts.append("by the integer model")
    if output:
        parts.append(str(output))
    print("; ".join(parts))


def _shown(text):
    """The beginning of a text, without what a terminal would take for a command."""
    plain = "".join(char if char.isprintable() else " " for char in text)
    return plain if len(plain) <= _SHOWN_TEXT else plain[: _SHOWN_TEXT - 3] + "..."
