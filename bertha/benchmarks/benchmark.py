"""What a benchmark is: a name, a target, and how it is measured."""

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Benchmark", "Measured", "Result", "Target"]

_FORMATS = {
    "%": lambda value: f"{100 * value:.2f} %",
    "cycles/s": lambda value: f"{value:,.0f} cycles/s",
    "s": lambda value: f"{value:,.1f} s",
    "x": lambda value: f"{value:.3f}",
}


@dataclass(frozen=True)
class Target:
    """What must hold of a figure.

    Attributes
    ----------
    relation : {">=", "<="}
    value : float
    unit : {"%", "cycles/s", "s", "x"}
        Of a share, which is shown as per cent; of a speed; of a time; of a ratio.
    strict : bool
        Whether the figure must be below, or above, and not equal.
    """

    relation: str
    value: float
    unit: str = "%"
    strict: bool = False

    def holds(self, measured) -> bool:
        """Whether a figure meets it."""
        if self.strict and measured == self.value:
            return False
        return measured >= self.value if self.relation == ">=" else measured <= self.value

    def show(self, measured) -> str:
        """A figure to read, in the target's unit."""
        return _FORMATS[self.unit](measured)

    def __str__(self):
        sign = self.relation[0] if self.strict else {">=": "≥", "<=": "≤"}[self.relation]
        return f"{sign} {self.show(self.value)}"


@dataclass(frozen=True)
class Measured:
    """A figure, and in words what it was made of."""

    value: float
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """One figure.

    Attributes
    ----------
    name : str
    what : str
        What is measured, in words.
    target : Target
    measure : function of Context
        Its `Measured`.
    runs : bool
        Whether it runs programs, in RTL or predicted; otherwise it takes times, and `--predicted` changes nothing.
    needs_rtl : bool
        Whether there is no prediction of it.
    """

    name: str
    what: str
    target: Target
    measure: Callable
    runs: bool = True
    needs_rtl: bool = False


@dataclass(frozen=True, kw_only=True)
class Result:
    """What became of a benchmark.

    Attributes
    ----------
    benchmark : Benchmark
    value : float or None
        None: it isn't measured (yet), or failed.
    how : str
        "RTL", "predicted" or "timed", or why there is no figure.
    detail : str
    commit : str or None
        At which it was measured.
    """

    benchmark: Benchmark
    value: float | None
    how: str
    detail: str = ""
    commit: str | None = None

    @property
    def ok(self) -> bool | None:
        """Whether the target is met; None if nothing is known."""
        return None if self.value is None else self.benchmark.target.holds(self.value)

    def as_dict(self) -> dict:
        """As JSON has it."""
        target = self.benchmark.target
        return {
            "name": self.benchmark.name,
            "target": target.value,
            "measured": self.value,
            "ok": self.ok,
            "relation": "<>"[target.relation == ">="] + "=" * (not target.strict),
            "unit": "" if target.unit in ("%", "x") else target.unit,
            "what": self.benchmark.what,
            "how": self.how,
            "detail": self.detail,
            "commit": self.commit,
        }
