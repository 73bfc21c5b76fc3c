"""Bertha, a generator of BERT accelerators: what notebooks call.

    import bertha
    encoder = bertha.load_model("minilm")
    quantized = bertha.quantize_model(encoder, recipe="w8a8-split")
    artifact = bertha.compile_model(quantized, preset="edge16", tokens=128)
    result = bertha.run_model(artifact, ["A first text.", "A second one."])
    result.embeddings, result.report

    embedder = bertha.Embedder.from_pretrained("minilm")
    vectors = embedder.encode(["A first text.", "A second one."])

The command `bertha` does the same from a shell. Every name is imported when it is first used.
"""

import importlib

_HOMES = {
    "AcceleratorFault": "bertha.errors",
    "Artifact": "bertha.runtime.artifact",
    "Config": "bertha.rtl.config",
    "Embedder": "bertha.embedder",
    "LayerOptions": "bertha.sim.options",
    "PRESETS": "bertha.rtl.config",
    "SimulationError": "bertha.errors",
    "ToolError": "bertha.errors",
    "UserError": "bertha.errors",
    "compile_layer": "bertha.compiler.compile",
    "compile_model": "bertha.compilation",
    "generate": "bertha.rtl.generate",
    "load_artifact": "bertha.runtime.artifact",
    "load_model": "bertha.models.encoder",
    "predict": "bertha.compiler.predict",
    "preset": "bertha.rtl.config",
    "quantize_layer": "bertha.quantize.quantizer",
    "quantize_model": "bertha.quantization",
    "run_layer": "bertha.sim.run",
    "run_model": "bertha.running",
}

__all__ = sorted(_HOMES)  # noqa: PLE0605 (names that are imported on demand)


def __getattr__(name):
    if name not in _HOMES:
        raise AttributeError(f"module 'bertha' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__():
    return [*__all__, "__doc__"]
