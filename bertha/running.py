"""From texts to arrays: tokenizer and embeddings on the host, the encoder in integers, pooling and head on the host."""

import time
from dataclasses import replace

import numpy as np

from bertha.backends import run_accelerator, run_integers
from bertha.errors import UserError
from bertha.golden import integer_model
from bertha.results import Result, RunReport, sentence_macs
from bertha.runtime.artifact import Artifact

__all__ = ["BACKENDS", "run_model"]

BACKENDS = ("integer", "rtl")


def run_model(
    model, texts, *, backend="integer", check=False, normalize=None, hidden=False, progress=None, notify=None
) -> Result:
    """Runs a model on texts. Nothing is printed.

    Parameters
    ----------
    model : Artifact or QuantizedEncoder
        The second has no program, so only the integer model can run it.
    texts : str, or list of str or (str, str)
        A pair is one sentence, as for entailment.
    backend : {"integer", "rtl"}
        The integer model, which gives the accelerator's results byte for byte, or the accelerator itself in
        simulation.
    check : bool
        Run both, and compare every byte: `report.bit_exact`.
    normalize : bool, optional
        Whether embeddings are divided by their lengths. By default as the model itself says.
    hidden : bool
        Whether to keep the encoder's output of every token.
    progress : function of (int, int), optional
        Called now and then with how much of how much is done (sentences or cycles).
    notify : function of str, optional
        Called with what is being built, if something is.

    Raises
    ------
    UserError, models.text.TextError
        If a text has no token, or there is no such backend or no program for it.
    ToolError, DriverError, SimulationError
        If the simulation fails.
    """
    begin = time.perf_counter()
    program = model.program if isinstance(model, Artifact) else None
    _check(backend, check, program)
    texts = [texts] if isinstance(texts, str) else list(texts)
    host, integers = model.host, model.model
    sentences = host.tokenize(texts, program and program.tokens)
    inputs = [
        integer_model.quantise_input(host.embed(sentence), integers.embedding_scale) for sentence in sentences
    ]
    runs, outputs, expected = [], None, None
    if check or backend == "integer":
        expected = run_integers(integers, inputs, progress=progress if backend == "integer" else None)
    if check or backend == "rtl":
        outputs, runs = run_accelerator(model, inputs, progress=progress, notify=notify)
    difference = _first_difference(outputs, expected) if check else None
    chosen = outputs if backend == "rtl" else expected
    states = [integer_model.dequantise(rows, integers.output_scale).astype(np.float32) for rows in chosen]
    embeddings, probabilities = _heads(host, states, normalize)
    return Result(
        sentences=sentences,
        embeddings=embeddings,
        hidden=states if hidden else None,
        labels=host.classifier and host.classifier.labels,
        probabilities=probabilities,
        report=RunReport(
            model=host.name,
            recipe=model.recipe,
            backend=backend,
            preset=model.preset if program else "",
            sentences=len(sentences),
            tokens=sum(sentence.tokens for sentence in sentences),
            truncated=sum(sentence.truncated for sentence in sentences),
            macs=sum(sentence_macs(integers, sentence.tokens) for sentence in sentences),
            seconds=time.perf_counter() - begin,
            array_n=program and program.config.array_n,
            runs=tuple(runs),
            predicted_cycles=model.predicted_cycles * len(runs) if runs else None,
            bit_exact=difference is None if check else None,
            first_difference=difference,
        ),
    )


def _check(backend, check, program):
    if backend not in BACKENDS:
        raise UserError(f"backend must be one of {', '.join(BACKENDS)}, not {backend!r}")
    if program is None and (check or backend == "rtl"):
        raise UserError("the accelerator needs a program: compile the model first (bertha.compile_model)")


def _heads(host, states, normalize):
    """Embeddings [sentences, dimension], and probabilities [sentences, labels] if there is a head."""
    pooling = host.pooling if normalize is None else replace(host.pooling, normalize=normalize)
    embeddings = np.zeros((len(states), host.dimension), dtype=np.float32)
    for row, state in zip(embeddings, states, strict=True):
        row[:] = pooling(state, np.ones(len(state), dtype=bool))
    if host.classifier is None:
        return embeddings, None
    probabilities = np.zeros((len(states), len(host.classifier.labels)), dtype=np.float32)
    for row, state in zip(probabilities, states, strict=True):
        row[:] = host.classifier.probabilities(state)
    return embeddings, probabilities


def _first_difference(outputs, expected):
    """Where the accelerator's outputs differ from the integer model's; None if nowhere."""
    for number, (output, right) in enumerate(zip(outputs, expected, strict=True)):
        different = np.argwhere(output != right)
        if len(different):
            token, channel = different[0]
            return (
                f"sentence {number}, token {token}, channel {channel}: {output[token, channel]} instead of "
                f"{right[token, channel]}"
            )
    return None
