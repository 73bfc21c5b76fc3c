"""What a model comes to on a task's test set, and on the accelerator. The search has no way to here."""

import math
from dataclasses import asdict, dataclass

import numpy as np

from bertha.golden import floating, integer_model
from bertha.models.embedding import embedding_sums, float_hidden_states
from bertha.models.tasks import Task
from bertha.specialise.batches import label_sentences
from bertha.specialise.cycles import predict_sizes
from bertha.specialise.parts import majority_rate

__all__ = ["Measured", "measure_model", "run_tokens"]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Of one model on one task.

    Attributes
    ----------
    rows, majority, standard_error : int, float, float
        Of the test set: its size, how often the most frequent label is right, and one standard error of the accuracy.
    accuracy : float
        Of the float model.
    integer : float or None
        Of the integer model, which the RTL equals in every byte, on the first `integer_rows` rows.
    integer_rows : int
    float_there : float or None
        Of the float model on those rows.
    parameters, weight_bytes : int
        Of the encoder's linear layers.
    tokens, cycles, utilization : int, int, float
        Predicted, for a run of so many tokens.
    sizes : list of (int, int)
        Heads and neurons by layer.
    keys : list of int
        Of hard attention by layer, 0: all.
    """

    rows: int
    majority: float
    standard_error: float
    accuracy: float
    integer: float | None
    integer_rows: int
    float_there: float | None
    parameters: int
    weight_bytes: int
    tokens: int
    cycles: int
    utilization: float
    sizes: list
    keys: list

    def as_dict(self) -> dict:
        return asdict(self)


def run_tokens(sentences) -> int:
    """Tokens of a run that holds any of the sentences, in whole panels of 16."""
    return -(-max(sentence.tokens for sentence in sentences) // 16) * 16


def measure_model(
    encoder, task: Task, training, *, tokens, longest, quantized=None, integer_rows=0
) -> Measured:
    """Scores a model on the task's test set.

    Parameters
    ----------
    encoder : Encoder
    task : Task
    training : Training
        Its labels' numbers are the model's.
    tokens, longest : int
        Of a run, and to which texts are cut.
    quantized : QuantizedModel, optional
        Its integers, to score the first `integer_rows` rows with.
    integer_rows : int
    """
    sentences = label_sentences(encoder, task.test, longest)
    numbers = np.array(training.numbers(task.test))
    right = np.array(
        [
            int(np.argmax(encoder.classifier(float_hidden_states(encoder, sentence)[-1]))) == number
            for sentence, number in zip(sentences, numbers)
        ]
    )
    integer = there = None
    count = min(integer_rows, len(sentences))
    if quantized is not None and count:
        sums = [embedding_sums(encoder, sentence) for sentence in sentences[:count]]
        inputs = [integer_model.quantise_input(part, quantized.embedding_scale) for part in sums]
        outputs = integer_model.run_sentences(quantized, inputs)
        found = [np.argmax(encoder.classifier(part * quantized.output_scale)) for part in outputs]
        integer, there = float(np.mean(np.array(found) == numbers[:count])), float(right[:count].mean())
    sizes = []
    for index in range(encoder.layers):
        living = floating.living_parts(encoder, index)
        sizes.append((living.heads, len(living.neurons)))
    config = encoder.config
    head_dim = config.hidden_size // config.num_attention_heads
    prediction = predict_sizes(sizes, hidden=config.hidden_size, head_dim=head_dim, tokens=tokens)
    weights = sum(4 * heads * head_dim + 2 * neurons for heads, neurons in sizes) * config.hidden_size
    biases = sum(3 * heads * head_dim + neurons + 2 * config.hidden_size for heads, neurons in sizes)
    accuracy = float(right.mean())
    hard = encoder.hard_attention
    return Measured(
        rows=len(numbers),
        majority=majority_rate(list(task.test.labels)),
        standard_error=math.sqrt(accuracy * (1 - accuracy) / len(numbers)),
        accuracy=accuracy,
        integer=integer,
        integer_rows=count if integer is not None else 0,
        float_there=there,
        parameters=weights + biases,
        weight_bytes=weights,
        tokens=tokens,
        cycles=prediction.cycles,
        utilization=prediction.utilization,
        sizes=sizes,
        keys=list(hard.keys) if hard else [0] * encoder.layers,
    )
