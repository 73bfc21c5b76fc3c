"""What the study runs: points by section, each with what varies."""

from dataclasses import dataclass, field, replace

from bertha.compiler.ablations import OPTIONS
from bertha.sweep.points import Point

__all__ = ["ALL_DRAM", "ALL_PASSES", "ABLATIONS", "SECTIONS", "Study"]

SECTIONS = ("length", "batch", "width", "recipe", "products", "bandwidth", "ablations", "energy")

ALL_PASSES = "+".join(
    f"{name}=pass" for name in ("gelu", "residual", "requantisation", "maximum", "moments", "division")
)
ALL_DRAM = ALL_PASSES.replace("=pass", "=dram").replace("division=dram", "probabilities=dram+division=pass")
ABLATIONS = (
    "",
    *(f"{name}={value}" for name, values in OPTIONS.items() for value in values[1:]),
    "probabilities=dram+division=pass",
    ALL_PASSES,
    ALL_DRAM,
    f"{ALL_DRAM}+operand=matrix",
)
"""What is measured beside the default, which is the first."""


@dataclass(frozen=True, kw_only=True)
class Study:
    """What is asked for.

    Attributes
    ----------
    base : Point
        Accelerator, memory, recipe and reference length of what doesn't vary.
    models : tuple of str
    tokens : tuple of int
        Lengths.
    batch : tuple of int
        Sentences in a run.
    sentence : int
        Tokens of each.
    presets, recipes : tuple of str
    ablated : str
        The model that ablations are measured on.
    """

    base: Point
    models: tuple
    tokens: tuple
    batch: tuple
    sentence: int
    presets: tuple
    recipes: tuple
    ablated: str
    sections: tuple = field(default=SECTIONS)

    def points(self) -> dict[str, list[Point]]:
        """Points to predict, by section."""
        base, wanted = self.base, {}
        per_model = [replace(base, model=model) for model in self.models]
        every = {
            "length": [replace(point, tokens=tokens) for point in per_model for tokens in self.tokens],
            "batch": [
                replace(point, tokens=count * self.sentence, sentences=(self.sentence,) * count)
                for point in per_model
                for count in self.batch
            ],
            "width": [replace(point, preset=name) for point in per_model for name in self.presets],
            "recipe": [replace(point, recipe=name) for point in per_model for name in self.recipes],
            "ablations": [replace(base, model=self.ablated, ablations=text) for text in ABLATIONS],
            "energy": per_model,
        }
        for section, points in every.items():
            if section in self.sections:
                wanted[section] = points
        return wanted

    def product_points(self) -> list[Point]:
        """Points whose matrix products are looked at: each model at the shortest, the reference and the longest length."""
        lengths = sorted({min(self.tokens), self.base.tokens, max(self.tokens)})
        return [replace(self.base, model=model, tokens=tokens) for model in self.models for tokens in lengths]

    def crossing_points(self) -> list[Point]:
        """Points whose bandwidth is varied: each model at the shortest and at the reference length."""
        if "bandwidth" not in self.sections:
            return []
        lengths = sorted({min(self.tokens), self.base.tokens})
        return [replace(self.base, model=model, tokens=tokens) for model in self.models for tokens in lengths]
