"""Two sides as one page that needs nothing else: the figures, and bars by kind, by layer and by engine."""

import html
from pathlib import Path

from bertha.comparison.tables import difference, rows_of, show_value

__all__ = ["write_comparison"]

_COLOURS = ("#4c78a8", "#f58518")
_PANEL, _BETWEEN, _LINE = (
    270,
    100,
    26,
)  # pixels: a panel's bars, what is between two panels, a line of the table


def write_comparison(path, one, other) -> Path:
    """Writes the page.

    Parameters
    ----------
    path : Path
    one, other : Side
        Of the same kind.
    """
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    panels = [("Busy cycles by kind of operation", _kind_bars(one, other))]
    if one.layers or other.layers:
        panels.append(("Cycles by layer", _layer_bars(one, other)))
    panels += [(f"{engine}: cycles by what it is", bars) for engine, bars in _engine_bars(one, other)]
    rows = _figure_rows(one, other)
    table_height = _LINE * (len(rows) + 2)
    height = table_height + len(panels) * (_PANEL + _BETWEEN)
    figure = make_subplots(
        rows=1 + len(panels),
        cols=1,
        specs=[[{"type": "table"}], *[[{"type": "xy"}]] * len(panels)],
        subplot_titles=["", *(html.escape(title) for title, _ in panels)],
        row_heights=[table_height, *[_PANEL] * len(panels)],
        vertical_spacing=_BETWEEN / height,
    )
    figure.add_trace(_figure_table(go, rows), row=1, col=1)
    for number, (_, (names, sides)) in enumerate(panels, 2):
        for label, values, colour in zip("AB", sides, _COLOURS):
            figure.add_trace(
                go.Bar(
                    x=[html.escape(name) for name in names],
                    y=values,
                    name=label,
                    marker_color=colour,
                    legendgroup=label,
                    showlegend=number == 2,
                    hovertemplate="%{x}<br>%{y:,}<extra>" + label + "</extra>",
                ),
                row=number,
                col=1,
            )
    title = f"A: {html.escape(str(one.file))}<br>B: {html.escape(str(other.file))}"
    figure.update_layout(
        title=title,
        template="plotly_white",
        barmode="group",
        height=height + 2 * _BETWEEN,
        margin={"t": _BETWEEN, "b": _BETWEEN},
    )
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.write_html(path, include_plotlyjs=True, full_html=True)
    return path


def _figure_rows(one, other):
    """Facts and figures, five cells each."""
    names = rows_of(one.facts, other.facts)
    rows = [(name, one.facts.get(name, ""), other.facts.get(name, ""), "", "") for name in names]
    for name in rows_of(one.figures, other.figures):
        unit = (one.figures | other.figures)[name][1]
        values = [side.figures.get(name, (None,))[0] for side in (one, other)]
        rows.append((name, *(show_value(value, unit) for value in values), *difference(*values, unit)))
    return [row for row in rows if row[1] or row[2]]


def _figure_table(go, rows):
    columns = [[html.escape(row[place]) for row in rows] for place in range(5)]
    return go.Table(
        header={"values": ["", "A", "B", "B − A", "B / A"], "align": "left"},
        cells={"values": columns, "align": ["left", "right", "right", "right", "right"]},
    )


def _kind_bars(one, other):
    keys = rows_of(one.kinds, other.kinds)
    sides = [[getattr(side.kinds.get(key), "cycles", 0) for key in keys] for side in (one, other)]
    return [f"{name} ({engine})" for name, engine in keys], sides


def _layer_bars(one, other):
    names = rows_of(one.layers, other.layers)
    return names, [[getattr(side.layers.get(name), "cycles", 0) for name in names] for side in (one, other)]


def _engine_bars(one, other):
    for engine in rows_of(one.engines, other.engines):
        classes = [side.engines.get(engine, {}) for side in (one, other)]
        names = [name for name in rows_of(*classes) if any(side.get(name) for side in classes)]
        values = [[side.get(name, 0) for name in names] for side in classes]
        yield engine, ([name.replace("_", " ") for name in names], values)
