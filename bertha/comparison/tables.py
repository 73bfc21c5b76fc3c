"""Two sides as tables to read: both values, their difference and their ratio."""

from rich.markup import escape
from rich.table import Table

__all__ = ["comparison_tables", "difference", "rows_of", "show_value"]

_SHOWN = {
    "": "{:,}",
    "%": "{:.2%}",
    "cosine": "{:.5f}",
    "dB": "{:.1f}",
    "error": "{:.4f}",
    "speed": "{:,.0f}",
}


def show_value(value, unit) -> str:
    """A figure to read; nothing if there is none."""
    return "" if value is None else _SHOWN[unit].format(value).replace("%", " %")


def difference(first, second, unit) -> tuple[str, str]:
    """The second value less the first one, and the second by the first, to read."""
    if first is None or second is None:
        return "", ""
    change = second - first
    sign = "+" if change > 0 else ""
    shown = f"{sign}{show_value(change, unit)}" if change else "0"
    return shown, f"{second / first:.4f}" if first else ""


def rows_of(first, second) -> list:
    """Names of both, in the order of the first, then what only the second has."""
    return list(dict.fromkeys([*first, *second]))


def comparison_tables(one, other) -> list[Table]:
    """All tables.

    Parameters
    ----------
    one, other : Side
        Of the same kind.
    """
    tables = [_facts(one, other), _figures(one, other)]
    if one.kinds or other.kinds:
        tables += [
            _kinds(one, other, "busy cycles", "cycles"),
            _kinds(one, other, "DRAM bytes", "dram_bytes"),
        ]
    if one.layers or other.layers:
        tables.append(_layers(one, other))
    if one.engines or other.engines:
        tables.append(_engines(one, other))
    return tables


def _table(title, *names):
    table = Table(title=title, title_justify="left")
    for name in names:
        table.add_column(name, no_wrap=True)
    for name in ("A", "B", "B − A", "B / A"):
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _facts(one, other):
    table = Table(title=f"Two of a kind: {one.what}", title_justify="left")
    for name in ("", "A", "B"):
        table.add_column(name)
    table.add_row("file", escape(str(one.file)), escape(str(other.file)))
    for name in rows_of(one.facts, other.facts):
        values = one.facts.get(name, ""), other.facts.get(name, "")
        if any(values):
            table.add_row(name, *(escape(value) for value in values))
    return table


def _figures(one, other):
    table = _table("Figures", "")
    for name in rows_of(one.figures, other.figures):
        (first, unit), (second, _) = (
            side.figures.get(name, (None, (one.figures | other.figures)[name][1])) for side in (one, other)
        )
        table.add_row(name, *_cells(first, second, unit))
    return table


def _cells(first, second, unit=""):
    return show_value(first, unit), show_value(second, unit), *difference(first, second, unit)


def _kinds(one, other, what, field):
    table = _table(f"{what[0].upper()}{what[1:]} by kind of operation", "operation", "engine")
    for key in rows_of(one.kinds, other.kinds):
        first, second = (getattr(side.kinds.get(key), field, 0) for side in (one, other))
        if first or second:
            table.add_row(escape(key[0]), escape(key[1]), *_cells(first, second))
    return table


def _layers(one, other):
    table = _table("Cycles by layer", "layer")
    for name in ("utilisation A", "utilisation B"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in rows_of(one.layers, other.layers):
        layers = one.layers.get(name), other.layers.get(name)
        cycles = [layer and layer.cycles for layer in layers]
        used = [show_value(layer and layer.utilization, "%") for layer in layers]
        table.add_row(escape(name), *_cells(*cycles), *used)
    return table


def _engines(one, other):
    table = _table("Where each engine's cycles went", "engine", "is")
    for engine in rows_of(one.engines, other.engines):
        sides = [side.engines.get(engine, {}) for side in (one, other)]
        table.add_section()
        for name in rows_of(*sides):
            first, second = (classes.get(name, 0) for classes in sides)
            if first or second:
                table.add_row(escape(engine), escape(name.replace("_", " ")), *_cells(first, second))
    return table
