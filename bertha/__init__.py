"""Bertha, a generator of BERT accelerators: what notebooks call.

    import bertha
    encoder = bertha.load_model("minilm")
    layer = bertha.quantize_layer(encoder, 0)
    program = bertha.compile_layer(layer, bertha.preset("edge16"), seq=128)
    report = bertha.run_layer(bertha.LayerOptions(layer=0, seq=128))

The command `bertha` does the same from a shell. Every name is imported when it is first used.
"""

import importlib

_HOMES = {
    "AcceleratorFault": "bertha.errors",
    "Config": "bertha.rtl.config",
    "LayerOptions": "bertha.sim.options",
    "PRESETS": "bertha.rtl.config",
    "SimulationError": "bertha.errors",
    "ToolError": "bertha.errors",
    "UserError": "bertha.errors",
    "compile_layer": "bertha.compiler.compile",
    "generate": "bertha.rtl.generate",
    "load_model": "bertha.models.encoder",
    "predict": "bertha.compiler.predict",
    "preset": "bertha.rtl.config",
    "quantize_layer": "bertha.quantize.quantizer",
    "run_layer": "bertha.sim.run",
}

__all__ = sorted(_HOMES)  # noqa: PLE0605 (names that are imported on demand)


def __getattr__(name):
    if name not in _HOMES:
        raise AttributeError(f"module 'bertha' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__():
    return [*__all__, "__doc__"]
