"""Compiles quantised models, and single encoder layers."""

from bertha.compiler.ablations import Ablations
from bertha.compiler.check.check import check
from bertha.compiler.emit.attention import emit_attention
from bertha.compiler.emit.emitter import Emitter
from bertha.compiler.emit.feedforward import emit_feedforward
from bertha.compiler.layout.image import Image
from bertha.compiler.layout.model import ModelLayout, Source
from bertha.compiler.layout.panels import panel_count
from bertha.compiler.plan.buffers import HIDDEN_TILES
from bertha.compiler.plan.plan import make_plan
from bertha.compiler.program import Program, check_ranges
from bertha.compiler.synchronise.synchronise import synchronise
from bertha.rtl.config import PRESETS
from bertha.rtl.isa import COMMAND_BYTES

__all__ = ["compile_layer", "compile_model"]


def compile_model(
    model,
    config,
    *,
    tokens,
    ranges=None,
    key_mask=False,
    base=0,
    name="the model",
    to_run=True,
    ablations=None,
) -> Program:
    """One program of a whole model: from the int16 sums of embeddings to the last layer's int16 output.

    Inputs are put into the image for each run: `Program.input_pieces`.

    Parameters
    ----------
    model : golden.model.QuantizedModel
    config : Config
    tokens : int
        Tokens (S) of a run, at least 1.
    ranges : int [tokens, 2], optional
        The keys that each row sees (`Program.input_pieces`), if they are the same in every run: what no row needs
        is then left out of attention. Without it, the program serves all ranges.
    key_mask : bool
        Whether runs may hide keys from all rows.
    base : int
        First byte of DRAM to use.
    name : str
        What error messages call the model.
    to_run : bool
        False for a program whose cycles alone are wanted: it is neither given its weights nor checked.
    ablations : Ablations, optional
        What is done apart from the drain, to measure it.

    Raises
    ------
    ValueError
        If the model is inconsistent or doesn't fit.
    bertha.compiler.check.errors.ProgramError
        If the program breaks a rule.
    """
    if model.embedding_norm is None:
        source, first_norm = Source.STREAM, model.layers[0].input_quantize
    else:
        source, first_norm = Source.EMBEDDINGS, model.embedding_norm
    return _compile(
        model.layers,
        config,
        seq=tokens,
        source=source,
        first_norm=first_norm,
        ranges=ranges,
        key_mask=key_mask,
        base=base,
        names=[f"layer{number}" for number in range(len(model.layers))],
        model=name,
        title=name,
        to_run=to_run,
        ablations=ablations,
    )


def compile_layer(
    layer,
    config,
    *,
    seq,
    ranges=None,
    key_mask=False,
    name="layer0",
    base=0,
    model="the layer",
    ablations=None,
) -> Program:
    """The program and DRAM image of one encoder layer, which takes int16 input and the int8 operand made of it.

    Parameters
    ----------
    layer : golden.layer.QuantizedLayer
    config : Config
    seq : int
        Tokens, at least 1.
    name : str
        First part of the operations' names.
    model : str
        What error messages call the layer.

    The others, and errors, are those of `compile_model`.
    """
    return _compile(
        [layer],
        config,
        seq=seq,
        source=Source.OPERANDS,
        ranges=ranges,
        key_mask=key_mask,
        base=base,
        names=[name],
        model=model,
        title=name,
        ablations=ablations,
    )


def _compile(
    layers,
    config,
    *,
    seq,
    source,
    names,
    model,
    title,
    base,
    ranges,
    key_mask,
    first_norm=None,
    to_run=True,
    ablations=None,
):
    ablations = ablations or Ablations()
    if seq < 1:
        raise ValueError(f"seq must be at least 1 token, not {seq}")
    if ranges is not None:
        ranges = check_ranges(ranges, seq)
    for layer_name, layer in zip(names, layers):
        if 0 < layer.attention_keys < seq and not config.hard_attention:
            raise ValueError(
                f"{layer_name}'s hard attention needs an accelerator with hard_attention=1, not 0"
            )
    image = Image(config, base, contents=to_run)
    layout = ModelLayout(
        layers,
        config,
        seq=seq,
        image=image,
        source=source,
        first_norm=first_norm,
        key_mask=key_mask,
        ablations=ablations,
    )
    presets = [preset for preset, other in PRESETS.items() if other == config]
    plan = make_plan(layout, config, name=model, preset=presets[0] if presets else "")
    scratch = _reserve_scratch(layout, plan, config, image)
    emitter = Emitter(
        config,
        layout,
        plan,
        names,
        keys=_key_panels(ranges, seq, config.array_n),
        scratch=scratch,
        ablations=ablations,
    )
    emitter.passes.load_constants()
    for number in range(len(layers)):
        emitter.begin(number)
        emit_attention(emitter)
        emit_feedforward(emitter)
    commands = synchronise(emitter.commands, config, dram_base=base, dram_end=image.end)
    program = Program(
        config=config,
        commands=commands,
        pieces=image.pieces,
        program_address=image.reserve(COMMAND_BYTES * len(commands)),
        window=(base, image.end),
        scratch=list(scratch.values()),
        x16=layout.x16,
        x8=layout.x8,
        ranges_address=layout.ranges_address,
        mask_address=layout.mask_address,
        ranges=ranges,
        output16=layout.output16,
        name=title,
        plan=plan,
    )
    if to_run:
        program.pieces.append((program.program_address, program.code))
        check(program)
    return program


def _reserve_scratch(layout, plan, config, image):
    """DRAM for what doesn't stay in the scratchpad, as (first byte, bytes), by use."""
    panel_bytes = layout.panels * config.line_bytes
    several = len(layout.layers) > 1
    made_here = layout.source != Source.OPERANDS
    wanted = {}
    if plan.choice.spill:
        wanted["context"] = max(layer.context.lines for layer in layout.layers)
    operand_again = plan.choice.x_parts > 1 or layout.ablations.operand != "kept"
    if several and not plan.choice.keeps_operand or made_here and operand_again:
        wanted["x8"] = max(layer.x.lines for layer in layout.layers)
    if (several or layout.source == Source.EMBEDDINGS) and not plan.choice.keeps_stream:
        wanted["x16"] = layout.layers[0].layer.hidden
    if layout.ablations.needs_scratch:
        largest = max(layout.layers[0].layer.hidden, layout.panels * config.array_n)
        wanted["passes"] = 2 * max(largest, HIDDEN_TILES * config.array_n)
    return {use: (image.reserve(lines * panel_bytes), lines * panel_bytes) for use, lines in wanted.items()}


def _key_panels(ranges, seq, n):
    """Key panels that each row panel meets: those from the first to the last that one of its rows sees."""
    panels = panel_count(seq, n)
    if ranges is None:
        return [range(panels)] * panels
    found = []
    for panel in range(panels):
        rows = ranges[panel * n : (panel + 1) * n]
        rows = rows[rows[:, 0] < rows[:, 1]]
        # A panel of padding alone still has to be given a context: that of masked keys, which is zero.
        first, last = (rows[:, 0].min(), rows[:, 1].max()) if len(rows) else (0, 1)
        found.append(range(int(first) // n, panel_count(int(last), n)))
    return found
