"""What a program does apart from the drain, or anew, to show what doing it in the drain, or once, is worth.

The default of every option is what programs are compiled to. The others exist to be measured: their results are the
same, but for `division` (`bertha.compiler.emit.passes`).
"""

from dataclasses import dataclass, fields

from bertha.errors import UserError

__all__ = ["OPTIONS", "Ablations", "parse_ablations"]

_DRAIN = ("drain", "pass", "dram")

OPTIONS = {
    "gelu": _DRAIN,
    "residual": _DRAIN,
    "requantisation": _DRAIN,
    "maximum": _DRAIN,
    "moments": _DRAIN,
    "probabilities": ("kept", "dram"),
    "division": ("drain", "pass"),
    "operand": ("kept", "head", "matrix"),
    "weights": ("once", "panel"),
}
"""Values of each option, the default first."""


@dataclass(frozen=True, kw_only=True)
class Ablations:
    """Where things are done: `drain` of the GEMM, a `pass` of its own over what the GEMM wrote to the scratchpad, or such a
    pass after the values went to DRAM and came back (`dram`).

    Attributes
    ----------
    gelu : str
        GELU of the FFN's hidden values.
    residual : str
        The addition of the residual stream, behind `output` and `down`.
    requantisation : str
        Hidden values from 16 to 8 bits.
    maximum : str
        The largest score of each row.
    moments : str
        Sums and sums of squares of what LayerNorm takes.
    probabilities : str
        P stays in the scratchpad (`kept`), or goes to DRAM and comes back (`dram`).
    division : str
        Of P by its sums: deferred to the drain of P·V, or a pass that makes normalised P of 7 bits.
    operand : str
        The projections' operand stays in the scratchpad (`kept`); or it is read from DRAM once a head, or once for each of
        a head's Q, K and V (`matrix`).
    weights : str
        Weights are read once a layer, or once for every row panel (`panel`), and with the projections' weights their
        operand once a head.
    """

    gelu: str = "drain"
    residual: str = "drain"
    requantisation: str = "drain"
    maximum: str = "drain"
    moments: str = "drain"
    probabilities: str = "kept"
    division: str = "drain"
    operand: str = "kept"
    weights: str = "once"

    def __post_init__(self):
        for name, value in self.as_dict().items():
            if value not in OPTIONS[name]:
                raise UserError(
                    f"the ablation {name} must be one of {', '.join(OPTIONS[name])}, not {value!r}"
                )
        if self.weights == "panel" and self.operand != "kept":
            raise UserError(f"the ablation weights=panel must go with operand=kept, not {self.operand}")

    def as_dict(self) -> dict[str, str]:
        """All options by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def needs_constants(self) -> bool:
        """Whether a pass of the array's takes the zeros or the identity (`bertha.compiler.emit.passes`)."""
        in_drain = self.gelu, self.residual, self.maximum, self.moments, self.division
        return any(where != "drain" for where in in_drain)

    @property
    def needs_scratch(self) -> bool:
        """Whether a pass's values go through DRAM."""
        return "dram" in self.as_dict().values()

    def __str__(self):
        """As `parse_ablations` takes it; empty if nothing differs from the default."""
        return "+".join(
            f"{name}={value}" for name, value in self.as_dict().items() if value != OPTIONS[name][0]
        )


def parse_ablations(text) -> Ablations:
    """Ablations from text such as `gelu=pass+moments=dram`; empty for none.

    Raises
    ------
    UserError
        If it names what there isn't.
    """
    values = {}
    for part in filter(None, text.split("+")):
        name, _, value = part.partition("=")
        if name not in OPTIONS or name in values:
            raise UserError(f"an ablation must be one of {', '.join(OPTIONS)}, once, not {name!r}")
        values[name] = value
    return Ablations(**values)
