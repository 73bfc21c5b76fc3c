"""From integers to an accelerator's program, and all of it in one artifact."""

from bertha.compiler.compile import compile_model as compile_program
from bertha.compiler.predict import default_timing, predict
from bertha.errors import UserError
from bertha.rtl.config import PRESETS, Config, preset
from bertha.runtime.artifact import Artifact, current_versions
from bertha.runtime.program_file import plan_as_dict

__all__ = ["compile_model"]


def compile_model(quantized, preset="edge16", tokens=128) -> Artifact:
    """The program of a whole model, which takes any sentences that together have at most `tokens` tokens.

    Parameters
    ----------
    quantized : QuantizedEncoder
        As `bertha.quantize_model` gives it.
    preset : str or Config
        The accelerator.
    tokens : int
        Of a run: sentences are packed into it; a longer one is truncated.

    Raises
    ------
    UserError
        If there is no such preset, or the model doesn't fit it.
    """
    config = _config(preset)
    if not isinstance(tokens, int) or isinstance(tokens, bool) or tokens < 1:
        raise UserError(f"tokens must be an integer from 1, not {tokens!r}")
    try:
        program = compile_program(quantized.model, config, tokens=tokens, name=quantized.host.name)
    except ValueError as error:
        raise UserError(str(error)) from None
    return Artifact(
        host=quantized.host,
        model=quantized.model,
        program=program,
        preset=next((name for name, other in PRESETS.items() if other == config), ""),
        recipe=quantized.recipe,
        predicted_cycles=predict(program, default_timing(config)).cycles,
        plan=plan_as_dict(program.plan),
        versions=current_versions(),
    )


def _config(wanted):
    return wanted if isinstance(wanted, Config) else preset(wanted)
