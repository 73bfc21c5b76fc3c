"""What a recipe costs on the accelerator."""

from dataclasses import dataclass

from bertha.compiler.compile import compile_model
from bertha.compiler.predict import Timing, predict

__all__ = ["Cost", "model_cost"]

MEMORY_LATENCY = 100


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Of one full program.

    Attributes
    ----------
    tokens : int
    macs : int
        The array's own: an operand of two byte planes counts twice, a duplicated channel once more.
    cycles : int
        Predicted, with memory of 100 cycles and as fast as the bus.
    """

    tokens: int
    macs: int
    cycles: int


def model_cost(model, config, tokens) -> Cost:
    """The cost of a program of so many tokens of a quantised model on the accelerator `config`."""
    program = compile_model(model, config, tokens=tokens)
    prediction = predict(program, Timing(memory=MEMORY_LATENCY, bandwidth=config.axi_data_bytes))
    return Cost(tokens=tokens, macs=prediction.macs, cycles=prediction.cycles)
