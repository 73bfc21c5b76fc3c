"""What a run gives: arrays, and a report of how they came about."""

from dataclasses import dataclass, field

import numpy as np

__all__ = ["AcceleratorRun", "Result", "RunReport", "sentence_macs"]


@dataclass(frozen=True)
class AcceleratorRun:
    """One run of the program on the simulated accelerator.

    Attributes
    ----------
    sentences : tuple of int
        Which sentences it took.
    tokens : int
        Theirs together; the rest of the program's are padding.
    counters : bertha.runtime.driver.Counters
    """

    sentences: tuple
    tokens: int
    counters: object

    @property
    def cycles(self) -> int:
        """From the doorbell to the end."""
        return self.counters.cycles


@dataclass(frozen=True, kw_only=True)
class RunReport:
    """How a run went.

    Attributes
    ----------
    model, recipe, backend, preset : str
        Without a program the preset is empty.
    sentences, tokens, truncated : int
        Sentences, their tokens, and how many of them were cut.
    macs : int
        Multiply-accumulates of each sentence alone.
    seconds : float
        Wall-clock time, tokenizer and pooling included.
    array_n : int or None
        Side of the accelerator's array.
    runs : tuple of AcceleratorRun
        Empty if only the integer model ran.
    predicted_cycles : int or None
        Of all runs together; None without a program.
    bit_exact : bool or None
        Whether the accelerator's results equal the integer model's, every byte; None if it wasn't checked.
    first_difference : str or None
        Where they don't.
    """

    model: str
    recipe: str
    backend: str
    preset: str
    sentences: int
    tokens: int
    truncated: int
    macs: int
    seconds: float
    array_n: int | None = None
    runs: tuple = ()
    predicted_cycles: int | None = None
    bit_exact: bool | None = None
    first_difference: str | None = None

    @property
    def cycles(self) -> int | None:
        """Of all runs on the accelerator together, from doorbell to interrupt; None if there was none."""
        return sum(run.cycles for run in self.runs) if self.runs else None

    @property
    def useful_utilization(self) -> float | None:
        """`macs` / (N² · cycles)."""
        return self.macs / (self.array_n**2 * self.cycles) if self.runs else None

    def as_dict(self) -> dict[str, object]:
        """The report as JSON has it."""
        values = {name: value for name, value in vars(self).items() if name not in ("runs", "array_n")}
        return {
            **values,
            "cycles": self.cycles,
            "useful_utilization": self.useful_utilization,
            "runs": [
                {"sentences": list(run.sentences), "tokens": run.tokens, **vars(run.counters)}
                for run in self.runs
            ],
        }


@dataclass(frozen=True, eq=False, kw_only=True)
class Result:
    """Arrays by sentence, in the order of the texts.

    Attributes
    ----------
    sentences : list of bertha.models.text.Sentence
        Token ids, without padding.
    embeddings : float32 [sentences, dimension]
    hidden : list of float32 [tokens, hidden] or None
        The encoder's output, if it was asked for.
    labels : tuple of str or None
        Of the model's classification head, if it has one.
    probabilities : float32 [sentences, labels] or None
        A regression's scores as they are.
    report : RunReport
    """

    sentences: list = field(repr=False)
    embeddings: np.ndarray = field(repr=False)
    hidden: list | None = field(repr=False)
    labels: tuple | None
    probabilities: np.ndarray | None = field(repr=False)
    report: RunReport

    @property
    def predictions(self) -> list[str] | None:
        """The likeliest label of each sentence; None without a head."""
        if self.probabilities is None:
            return None
        return [self.labels[number] for number in self.probabilities.argmax(axis=1)]


def sentence_macs(model, tokens) -> int:
    """Multiply-accumulates of one sentence alone in a `QuantizedModel`, without duplicates and second passes."""
    total = 0
    for layer in model.layers:
        linear = 4 * layer.hidden * layer.width + 2 * layer.hidden * layer.ffn
        total += tokens * linear + 2 * layer.width * tokens**2
    return total
