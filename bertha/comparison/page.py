"""Two sides as one page that needs nothing else: the figures, and bars by kind, by layer and by engine."""

from pathlib import Path

from bertha.comparison.tables import difference, rows_of, show_value
from bertha.page import COLOURS, axis, plot, section, table, write_page

__all__ = ["write_comparison"]

_HEIGHT = 280  # of a plot, in pixels
_VALUES = ("A", "B", "B − A", "B / A")


def write_comparison(path, one, other) -> Path:
    """Writes the page.

    Parameters
    ----------
    path : Path
    one, other : Side
        Of the same kind.
    """
    facts = [("file", str(one.file), str(other.file))]
    facts += [
        (name, *values)
        for name in rows_of(one.facts, other.facts)
        if any(values := (one.facts.get(name, ""), other.facts.get(name, "")))
    ]
    contents = [
        table(("", "A", "B"), facts, text=(0, 1, 2), wrap=(1, 2)),
        section("Figures", table(("", *_VALUES), _figures(one, other))),
        section("Busy cycles by kind of operation", _plot(*_kinds(one, other))),
    ]
    if one.layers or other.layers:
        contents.append(section("Cycles by layer", _plot(*_layers(one, other))))
    contents += [
        section(f"What {engine}'s cycles went to", _plot(names, sides))
        for engine, names, sides in _engines(one, other)
    ]
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_page(path, title=f"Two of a kind: {one.what}", contents=contents)


def _figures(one, other):
    for name in rows_of(one.figures, other.figures):
        unit = (one.figures | other.figures)[name][1]
        values = [side.figures.get(name, (None,))[0] for side in (one, other)]
        yield name, *(show_value(value, unit) for value in values), *difference(*values, unit)


def _plot(names, sides):
    """Bars of both sides beside each other."""
    import plotly.graph_objects as go

    bars = [
        go.Bar(
            x=names,
            y=values,
            name=label,
            marker_color=colour,
            hovertemplate="%{x}<br>%{y:,}<extra>" + label + "</extra>",
        )
        for label, values, colour in zip("AB", sides, COLOURS)
    ]
    layout = {"barmode": "group", "yaxis": axis("cycles"), "xaxis": axis(""), "margin": {"t": 30, "b": 30}}
    return plot(go.Figure(bars, layout), height=_HEIGHT)


def _kinds(one, other):
    keys = rows_of(one.kinds, other.kinds)
    sides = [[getattr(side.kinds.get(key), "cycles", 0) for key in keys] for side in (one, other)]
    return [f"{name} ({engine})" for name, engine in keys], sides


def _layers(one, other):
    names = rows_of(one.layers, other.layers)
    return names, [[getattr(side.layers.get(name), "cycles", 0) for name in names] for side in (one, other)]


def _engines(one, other):
    for engine in rows_of(one.engines, other.engines):
        classes = [side.engines.get(engine, {}) for side in (one, other)]
        names = [name for name in rows_of(*classes) if any(side.get(name) for side in classes)]
        values = [[side.get(name, 0) for name in names] for side in classes]
        yield engine, [name.replace("_", " ") for name in names], values
