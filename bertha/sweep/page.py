"""A sweep's results as one page that needs nothing else: scatter plots with Pareto fronts."""

import html
from pathlib import Path

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
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    plots = (
        ("multipliers of the array", "cycles a sentence", 1, 0),
        ("bytes of scratchpad", "cycles a sentence", 2, 0),
        ("multipliers of the array", f"sentences a second at {clock / 1e6:g} MHz", 1, None),
    )
    figure = make_subplots(rows=1, cols=len(plots), horizontal_spacing=0.07)
    for column, (x_title, y_title, x, y) in enumerate(plots, 1):
        points = [(costs_of(row)[x], _height(row, y, clock)) for row in rows]
        figure.add_trace(
            go.Scatter(
                x=[point[0] for point in points],
                y=[point[1] for point in points],
                mode="markers",
                name="points",
                showlegend=column == 1,
                marker={
                    "size": 8,
                    "color": [row[1]["utilization"] for row in rows],
                    "cmin": 0,
                    "cmax": 1,
                    "colorscale": "Viridis",
                    "showscale": column == len(plots),
                    "colorbar": {"title": "utilisation"},
                },
                text=[_label(row) for row in rows],
                hovertemplate="%{text}<br>%{x:,} · %{y:,.5g}<extra></extra>",
            ),
            row=1,
            col=column,
        )
        sign = 1 if y is not None else -1
        front = sorted(set(pareto_front(points, lambda point, sign=sign: (point[0], sign * point[1]))))
        figure.add_trace(
            go.Scatter(
                x=[point[0] for point in front],
                y=[point[1] for point in front],
                mode="lines+markers",
                line={"shape": "hv", "color": "crimson"},
                marker={"size": 10, "symbol": "circle-open"},
                name="Pareto front",
                showlegend=column == 1,
                hoverinfo="skip",
            ),
            row=1,
            col=column,
        )
        figure.update_xaxes(title_text=x_title, type="log", row=1, col=column)
        figure.update_yaxes(title_text=y_title, type="log", row=1, col=column)
    figure.update_layout(
        title=html.escape(title), template="plotly_white", height=620, legend={"orientation": "h", "y": 1.08}
    )
    figure.write_html(path, include_plotlyjs=True, full_html=True)
    return Path(path)


def _height(row, cost, clock):
    return costs_of(row)[cost] if cost is not None else clock / costs_of(row)[0]


def _label(row):
    point, result = row
    parts = [f"{name} {value}" for name, value in point.as_dict().items()]
    parts.append(f"{result['cycles']:,} cycles, utilisation {100 * result['utilization']:.1f} %")
    return "<br>".join(html.escape(str(part)) for part in parts)
