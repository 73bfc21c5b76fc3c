"""How well the array is used, by whole models, a layer, and attention alone."""

from functools import partial

from bertha.benchmarks.benchmark import Benchmark, Measured, Target
from bertha.benchmarks.cases import Case, figures

__all__ = ["BASE", "BENCHMARKS", "measure_attention", "measure_utilization"]

BASE = "synthetic-base-12"
"""BERT-base: twelve layers."""


def measure_utilization(context, case) -> Measured:
    """The model's own MACs over N² and all cycles from the doorbell to the interrupt."""
    found = figures(context, case)
    return Measured(found.utilization, f"{found.cycles:,} cycles, {found.macs:,} MACs")


def measure_attention(context, case) -> Measured:
    """`bertha.benchmarks.cases.attention_utilization` of a layer."""
    found = figures(context, case)
    return Measured(found.attention, f"in a layer of {found.cycles:,} cycles")


def _utilization(name, what, target, **case):
    return Benchmark(
        name=name,
        what=what,
        target=Target(">=", target),
        measure=partial(measure_utilization, case=Case(**case)),
    )


def _attention(preset, tokens, target):
    case = Case(model=BASE, preset=preset, tokens=tokens, layer=True)
    return Benchmark(
        name=f"attention-{preset}-{tokens}",
        what=f"{preset}: BERT-base, {tokens} tokens, attention alone",
        target=Target(">=", target),
        measure=partial(measure_attention, case=case),
    )


BENCHMARKS = [
    _utilization(
        "minilm-server32", "server32: MiniLM, six layers, 128 tokens", 0.99, model="minilm", preset="server32"
    ),
    _utilization(
        "base-server32",
        "server32: BERT-base, twelve layers, 128 tokens",
        0.995,
        model=BASE,
        preset="server32",
    ),
    _utilization(
        "minilm-layer-server32",
        "server32: MiniLM, one layer, 128 tokens",
        0.98,
        model="minilm",
        preset="server32",
        layer=True,
    ),
    *(_attention("edge16", tokens, 0.98) for tokens in (128, 512)),
    *(_attention("server32", tokens, 0.95) for tokens in (128, 512)),
]
