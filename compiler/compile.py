"""Compiles a quantised encoder layer."""

from bertha.compiler.check.check import check
from bertha.compiler.emit.attention import emit_attention
from bertha.compiler.emit.emitter import Emitter
from bertha.compiler.emit.feedforward import emit_feedforward
from bertha.compiler.layout.image import Image, LayerLayout
from bertha.compiler.layout.panels import panel_count
from bertha.compiler.plan.plan import make_plan
from bertha.compiler.program import Program
from bertha.compiler.synchronise.synchronise import synchronise
from bertha.rtl.config import PRESETS
from bertha.rtl.isa import COMMAND_BYTES

__all__ = ["compile_layer"]


def compile_layer(layer, config, *, seq, name="layer0", base=0, model="the layer") -> Program:
    """The program and DRAM image of one encoder layer for sequences of `seq` tokens.

    Inputs (activations, key mask) are put into the image for each run: `Program.input_pieces`.

    Parameters
    ----------
    layer : golden.layer.QuantizedLayer
    config : Config
    seq : int
        Tokens, at least 1.
    name : str
        First part of the operations' names.
    base : int
        First byte of DRAM to use.
    model : str
        What error messages call the layer.

    Raises
    ------
    ValueError
        If the layer is inconsistent or doesn't fit.
    bertha.compiler.check.errors.ProgramError
        If the program breaks a rule.
    """
    if seq < 1:
        raise ValueError(f"seq must be at least 1 token, not {seq}")
    image = Image(config, base)
    layout = LayerLayout(layer, config, seq=seq, image=image)
    names = [preset for preset, other in PRESETS.items() if other == config]
    plan = make_plan(layout, config, name=model, preset=names[0] if names else "")
    scratch = []
    if plan.spill:
        size = panel_count(seq, config.array_n) * layout.context.k * config.array_n
        scratch.append((image.reserve(size), size))
    emitter = Emitter(config, layout, plan, name, scratch[0][0] if plan.spill else None)
    emit_attention(emitter)
    emit_feedforward(emitter)
    commands = synchronise(emitter.commands, config, dram_base=base, dram_end=image.end)
    program = Program(
        config=config,
        commands=commands,
        pieces=image.pieces,
        program_address=image.reserve(COMMAND_BYTES * len(commands)),
        window=(base, image.end),
        scratch=scratch,
        x16=layout.x16,
        x8=layout.x8,
        mask_address=layout.mask_address,
        output16=layout.output16,
        name=name,
        plan=plan,
    )
    program.pieces.append((program.program_address, program.code))
    check(program)
    return program
