"""The points of a sweep: what varies, as a grid or as a list."""

import csv
import itertools
import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from bertha.compiler.ablations import parse_ablations
from bertha.compiler.placeholder import RECIPES
from bertha.errors import UserError
from bertha.rtl.config import Config, preset
from bertha.sim.options import check_memory

__all__ = ["AXES", "Point", "grid", "parse_value", "read_points"]

_CONFIG = tuple(field.name for field in fields(Config))
_WORKLOAD = {
    "model": "minilm",
    "tokens": 128,
    "recipe": "w8a8-split",
    "sentences": (),
    "preset": "edge16",
    "latency": 100,
    "bandwidth": None,
    "ablations": "",
}
AXES = (*_WORKLOAD, *_CONFIG)
"""What can vary, by name: the workload, the preset that the others change, the memory, parameters of `Config`."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """One thing to run.

    Attributes
    ----------
    model, tokens, recipe, sentences
        See `bertha.prediction.Workload`.
    preset : str
    changes : dict
        Parameters of the configuration that differ from the preset's.
    latency : int
        Of the memory, in cycles.
    bandwidth : float, str or None
        In bytes a cycle, or as a part of the bus's such as "0.5x"; by default as runs have it.
    ablations : str
        See `bertha.compiler.ablations.parse_ablations`.
    """

    model: str = "minilm"
    tokens: int = 128
    recipe: str = "w8a8-split"
    sentences: tuple = ()
    preset: str = "edge16"
    changes: dict = field(default_factory=dict)
    latency: int = 100
    bandwidth: float | str | None = None
    ablations: str = ""

    @property
    def config(self) -> Config:
        """The accelerator.

        Raises
        ------
        UserError
            If a parameter breaks its rule.
        """
        try:
            return preset(self.preset).replace(**self.changes)
        except (TypeError, ValueError) as error:
            raise UserError(str(error)) from None

    @property
    def bytes_per_cycle(self) -> float:
        """The memory's bandwidth as a number."""
        bus = self.config.axi_data_bytes
        if self.bandwidth is None:
            return max(8, bus)
        if isinstance(self.bandwidth, str):
            return float(self.bandwidth.removesuffix("x")) * bus
        return float(self.bandwidth)

    def check(self) -> None:
        """Checks what can be seen without compiling (UserError)."""
        if self.recipe not in RECIPES:
            raise UserError(f"recipe must be one of {', '.join(RECIPES)}, not {self.recipe!r}")
        parse_ablations(self.ablations)
        check_memory(self.latency, self.bytes_per_cycle)

    def as_dict(self) -> dict:
        """The point as a flat dict, for a file or a table; what is as by default is left out."""
        values = asdict(self)
        changes = values.pop("changes")
        return {name: value for name, value in values.items() if value != _WORKLOAD[name]} | changes

    @property
    def key(self) -> str:
        """What tells it from other points, in a file."""
        return json.dumps(self.as_dict(), sort_keys=True, default=list)


def point_of(values) -> Point:
    """A point from a dict with names of `AXES`; a value that is None or empty counts as not given.

    Raises
    ------
    UserError
        If there is no such axis.
    """
    for name in values:
        if name not in AXES:
            raise UserError(f"a sweep can vary {', '.join(AXES)}, not {name!r}")
    values = {name: value for name, value in values.items() if value not in (None, "")}
    changes = {name: value for name, value in values.items() if name in _CONFIG}
    return Point(**{name: value for name, value in values.items() if name not in _CONFIG}, changes=changes)


def grid(axes) -> list[Point]:
    """All combinations of the axes' values.

    Parameters
    ----------
    axes : dict
        Lists of values by names of `AXES`.
    """
    names = list(axes)
    return [point_of(dict(zip(names, values, strict=True))) for values in itertools.product(*axes.values())]


def read_points(path) -> list[Point]:
    """The points in a file: CSV with the axes' names in its first line and a point a line, or JSON: a list of points, or
    an object of lists, which is a grid.

    Raises
    ------
    UserError
        If the file can't be used.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"points can't be read from {str(path)!r}: {error}") from None
    if path.suffix == ".json":
        try:
            found = json.loads(text)
        except ValueError as error:
            raise UserError(f"{path} must be JSON: {error}") from None
        if isinstance(found, dict) and all(isinstance(values, list) for values in found.values()):
            return grid({name: [_plain(name, value) for value in values] for name, values in found.items()})
        if isinstance(found, list) and all(isinstance(values, dict) for values in found):
            return [
                point_of({name: _plain(name, value) for name, value in values.items()}) for values in found
            ]
        raise UserError(f"{path} must hold a list of points or an object of lists")
    points = []
    for number, row in enumerate(csv.DictReader(text.splitlines()), 2):
        if None in row or None in row.values():
            raise UserError(f"line {number} of {path} must have a value for every name in the first line")
        points.append(point_of({name: parse_value(name, value) for name, value in row.items()}))
    if not points:
        raise UserError(f"{path} must hold a point at least, but has none")
    return points


def parse_value(name, text) -> object:
    """A value of an axis from text; sizes may end in K or M, sentences are like 20+40.

    Raises
    ------
    UserError
        If it isn't one.
    """
    text = text.strip()
    if text == "" or name in ("model", "recipe", "preset", "ablations"):
        return text
    try:
        if name == "sentences":
            return tuple(int(part) for part in text.split("+"))
        if name == "bandwidth":
            return text if text.endswith("x") and float(text[:-1]) > 0 else float(text)
        for suffix, factor in (("K", 1 << 10), ("M", 1 << 20)):
            if text.upper().endswith(suffix):
                return int(text[:-1]) * factor
        return int(text, 0)
    except ValueError:
        raise UserError(f"{name} can't be {text!r}") from None


def _plain(name, value):
    if isinstance(value, str):
        return parse_value(name, value)
    return tuple(value) if isinstance(value, list) else value
