"""A sweep's results as one page that needs nothing else: scatter plots with Pareto fronts."""

import html
from pathlib import Path

import bertha.page
from bertha.page import axis, plot, section
from bertha.sweep.pareto import pareto_front

__all__ = ["costs_of", "write_page"]


def costs_of(row) -> tuple[float, float, float]:
    """What a result costs: cycles a sentence, multipliers of the array, bytes of scratchpad."""
    _, result = row
    return (result["cycles"] / result["sentences_a_run"], result["multipliers"], result["scratchpad_bytes"])


def write_page(path, rows, *, clock, title) -> Path:
    """Writes the page.

    Parameters
    ----------
    path : Path
    rows : list of (Point, dict)
        Points that didn't fail, and their results.
    clock : float
        In Hz, for sentences a second.
    title : str
    """
    speed = f"sentences a second at {clock / 1e6:g} MHz"
    plots = (
        ("Cycles and multipliers", "multipliers of the array", "cycles a sentence", 1, 0),
        ("Cycles and scratchpad", "scratchpad (bytes)", "cycles a sentence", 2, 0),
        ("Speed and multipliers", "multipliers of the array", speed, 1, None),
    )
    contents = []
    for name, x_title, y_title, x, y in plots:
        points = [(costs_of(row)[x], _height(row, y, clock)) for row in rows]
        better = "more" if y is None else "fewer"
        note = f"Fewer {x_title} and {better} {y_title} are better; no point beats one on the front in both."
        contents.append(
            section(name, plot(_figure(rows, points, x_title, y_title, y), height=480), note=note)
        )
    return bertha.page.write_page(path, title=title, contents=contents)


def _figure(rows, points, x_title, y_title, y):
    """The points, coloured by utilisation, and their Pareto front: the less of x the better, and of y unless it is None."""
    import plotly.graph_objects as go

    figure = go.Figure()
    figure.add_scatter(
        x=[point[0] for point in points],
        y=[point[1] for point in points],
        mode="markers",
        name="points",
        marker={
            "size": 9,
            "color": [100 * row[1]["utilization"] for row in rows],
            "cmin": 0,
            "cmax": 100,
            "colorscale": "Viridis",
            "showscale": True,
            "colorbar": {"title": {"text": "utilisation (%)"}},
        },
        text=[_label(row) for row in rows],
        hovertemplate="%{text}<br>%{x:,} · %{y:,.5g}<extra></extra>",
    )
    sign = 1 if y is not None else -1
    front = sorted(set(pareto_front(points, lambda point: (point[0], sign * point[1]))))
    figure.add_scatter(
        x=[point[0] for point in front],
        y=[point[1] for point in front],
        mode="lines+markers",
        line={"shape": "hv", "color": "crimson"},
        marker={"size": 12, "symbol": "circle-open"},
        name="Pareto front",
        hoverinfo="skip",
    )
    figure.update_xaxes(axis(x_title) | {"type": "log"})
    figure.update_yaxes(axis(y_title) | {"type": "log"})
    figure.update_layout(legend={"orientation": "h", "y": 1.02, "yanchor": "bottom"}, margin={"t": 40})
    return figure


def _height(row, cost, clock):
    return costs_of(row)[cost] if cost is not None else clock / costs_of(row)[0]


def _label(row):
    point, result = row
    parts = [f"{name} {value}" for name, value in point.as_dict().items()]
    parts.append(f"{result['cycles']:,} cycles, utilisation {100 * result['utilization']:.1f} %")
    return "<br>".join(html.escape(str(part)) for part in parts)
