"""What a recipe costs on the accelerator."""

from dataclasses import dataclass

from bertha.compiler.compile import compile_model
from bertha.compiler.predict import default_timing, predict
from bertha.rtl.isa import Opcode

__all__ = ["Cost", "model_cost"]


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Of one full program.

    Attributes
    ----------
    macs : int
        The array's: an operand of two byte planes counts twice, a duplicated channel and padding count too.
    model_macs : int
        The model's own.
    cycles : int
        Predicted, with the usual memory (`bertha.compiler.predict.default_timing`).
    """

    macs: int
    model_macs: int
    cycles: int


def model_cost(model, config, tokens) -> Cost:
    """The cost of a program of so many tokens of a quantised model on the accelerator `config`."""
    program = compile_model(model, config, tokens=tokens)
    prediction = predict(program, default_timing(config))
    steps = sum(
        command.tiles * command.get("k") * (2 if command.get("wide") else 1)
        for command in program.commands
        if command.opcode == Opcode.GEMM
    )
    return Cost(macs=steps * config.array_n**2, model_macs=program.macs, cycles=prediction.cycles)
