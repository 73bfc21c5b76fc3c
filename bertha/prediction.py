"""What a model takes on an accelerator that nobody has to build: from a shape to cycles."""

import functools
from dataclasses import dataclass, replace

from bertha.compiler.ablations import Ablations
from bertha.compiler.compile import compile_model
from bertha.compiler.packing import pack_sentences
from bertha.compiler.placeholder import operand_plan, placeholder_model
from bertha.compiler.predict import Prediction, Timing, predict
from bertha.compiler.program import Program
from bertha.errors import UserError
from bertha.models.hard_attention import parse_hard_attention
from bertha.models.shapes import ModelShape, model_shape
from bertha.rtl.config import Config

__all__ = ["Workload", "compile_workload", "predict_workload"]

COMPILED_LAYERS = 3
"""Of a model of equal layers: the first, one that stands for all in the middle, and the last."""


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What is to be run.

    Attributes
    ----------
    model : str
        See `bertha.models.shapes.model_shape`.
    tokens : int
        Of a run (S).
    recipe : str
        See `bertha.compiler.placeholder.operand_plan`.
    sentences : tuple of int
        Tokens of the sentences that a run holds, one after another; the program then leaves out of attention what none
        of them needs. Empty: a program for all packings.
    hard_attention : str or None
        Keys that tokens attend to, see `bertha.models.hard_attention.parse_hard_attention`; by default all.
    ablations : Ablations
    copies : bool
        Whether neurons have copies, as many as the quantiser may make.
    """

    model: str
    tokens: int = 128
    recipe: str = "w8a8-split"
    sentences: tuple = ()
    hard_attention: str | None = None
    ablations: Ablations = Ablations()
    copies: bool = True


def compile_workload(workload, config, *, to_run=False) -> tuple[Program, int]:
    """A program for predictions, and the layers that it stands for; `to_run`: one that has all layers and can run.

    Parameters
    ----------
    workload : Workload
    config : Config

    Raises
    ------
    UserError
        If there is no such model, or it doesn't fit.
    """
    shape = _shape(workload.model)
    if workload.tokens < 1:
        raise UserError(f"tokens must be at least 1, not {workload.tokens}")
    hard = None
    if workload.hard_attention is not None:
        hard = parse_hard_attention(workload.hard_attention, layers=shape.layers, tokens=workload.tokens)
    equal = len(set(shape.heads)) == 1 and (hard is None or len(set(hard.keys)) == 1) and not to_run
    layers = COMPILED_LAYERS if equal and shape.layers > COMPILED_LAYERS else shape.layers
    try:
        program = compile_model(
            placeholder_model(
                shape,
                operand_plan(shape, workload.recipe),
                layers=layers,
                hard_attention=hard,
                copies=workload.copies,
            ),
            config,
            tokens=workload.tokens,
            ranges=_ranges(workload),
            name=str(workload.model),
            to_run=to_run,
            ablations=workload.ablations,
        )
    except ValueError as error:
        raise UserError(str(error)) from None
    return program, shape.layers


def predict_workload(workload, config: Config, timing: Timing) -> Prediction:
    """The prediction of a workload on an accelerator with a memory.

    Programs are kept, those that were wanted last: they don't depend on the memory.

    Raises
    ------
    UserError
        As `compile_workload`.
    """
    program, layers = _compiled(workload, _for_compiler(config))
    return predict(replace(program, config=config), timing, layers=layers)


@functools.lru_cache(maxsize=8)
def _compiled(workload, config):
    return compile_workload(workload, config)


def _for_compiler(config):
    """The configuration without what no program depends on."""
    default = Config()
    return config.replace(
        scratchpad_banks=2, outstanding_bursts=default.outstanding_bursts, queue_depth=default.queue_depth
    )


@functools.cache
def _shape(model) -> ModelShape:
    return model_shape(model)


def _ranges(workload):
    if not workload.sentences:
        return None
    if min(workload.sentences) < 1:
        raise UserError(f"sentences must have at least 1 token, not {min(workload.sentences)}")
    packings = pack_sentences(list(workload.sentences), workload.tokens)
    if len(packings) > 1:
        raise UserError(
            f"sentences of {sum(workload.sentences)} tokens must fit the {workload.tokens} tokens of a run"
        )
    return packings[0].ranges
