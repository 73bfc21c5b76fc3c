"""The study as one page that needs nothing else."""

import html
from pathlib import Path

import bertha.page
from bertha.characterise.intensity import products
from bertha.characterise.tables import TITLES, rows_of
from bertha.compiler.operations import KINDS
from bertha.models.shapes import model_shape
from bertha.page import plot, section

__all__ = ["write_page"]

_BREAKDOWNS = ("length", "batch", "width", "recipe")


def write_page(path, sections, results, *, title) -> Path:
    """Writes the page.

    Parameters
    ----------
    path : Path
    sections : dict of str to list of Point
    results : dict of str to dict
        By section, as `bertha.characterise.tables.rows_of` takes them.
    title : str
    """
    contents = []
    for name, points in sections.items():
        known = results[name]
        good = [point for point in points if not known[point.key].get("error")]
        if good:
            contents.append(section(TITLES[name], plot(_FIGURES[name](good, known), height=520)))
    return bertha.page.write_page(path, title=title, contents=contents)


def _breakdown(section):
    def figure(points, results):
        import plotly.graph_objects as go

        rows = rows_of(section, points, results)
        names = [_label(section, row) for row in rows]
        kinds = [kind for kind in (*KINDS, "end") if kind in rows[0]]
        return go.Figure(
            [go.Bar(name=kind, x=names, y=[row[kind] for row in rows]) for kind in kinds],
            {"barmode": "stack", "yaxis": {"title": "% of the array's time"}},
        )

    return figure


def _label(section, row):
    model = html.escape(row["model"])
    varied = {
        "length": f"S = {row['tokens']}",
        "batch": f"{row['sentences']} sentences",
        "width": row["preset"],
        "recipe": row["recipe"],
    }
    return f"{model}<br>{varied[section]}"


def _roofline(points, results):
    import plotly.graph_objects as go

    figure = go.Figure()
    peak, bandwidth = points[0].config.array_n ** 2, points[0].bytes_per_cycle
    for point in points:
        found = products(model_shape(point.model), point.tokens, point.recipe)
        time, cycles = results[point.key]["time"], results[point.key]["cycles"]
        layers = model_shape(point.model).layers
        figure.add_scatter(
            x=[product.intensity for product in found],
            y=[product.macs * layers / max(1, time.get(product.name, cycles)) for product in found],
            text=[product.name for product in found],
            mode="markers",
            name=html.escape(f"{point.model}, S = {point.tokens}"),
            hovertemplate="%{text}<br>%{x:.1f} MACs a byte, %{y:.1f} a cycle<extra></extra>",
        )
    ridge = peak / bandwidth
    xs = [1, ridge, max(1000, 2 * ridge)]
    figure.add_scatter(
        x=xs, y=[min(peak, x * bandwidth) for x in xs], mode="lines", name="roof if each matrix is moved once"
    )
    figure.update_xaxes(type="log", title="MACs a byte, each matrix moved once")
    figure.update_yaxes(type="log", title="MACs a cycle")
    return figure


def _crossings(points, results):
    import plotly.graph_objects as go

    figure = go.Figure()
    for point in points:
        tried = results[point.key]["tried"]
        figure.add_scatter(
            x=[bandwidth for bandwidth, _ in tried],
            y=[cycles / tried[-1][1] for _, cycles in tried],
            mode="lines+markers",
            name=html.escape(f"{point.model}, S = {point.tokens}"),
        )
    figure.update_xaxes(type="log", title="bytes a cycle")
    figure.update_yaxes(title="cycles, of those at the bus's bandwidth")
    return figure


def _ablations(points, results):
    import plotly.graph_objects as go

    rows = rows_of("ablations", points, results)[1:]
    names = [row["ablation"] for row in rows]
    columns = ("cycles more %", "DRAM more %", "scratchpad more %", "energy more % (estimate)")
    return go.Figure([go.Bar(name=column, x=names, y=[row[column] for row in rows]) for column in columns])


def _energy(points, results):
    import plotly.graph_objects as go

    names = [html.escape(f"{point.model}, S = {point.tokens}") for point in points]
    parts = [results[point.key]["energy"] for point in points]
    return go.Figure(
        [go.Bar(name=part, x=names, y=[one[part] / 1e6 for one in parts]) for part in parts[0]],
        {"barmode": "stack", "yaxis": {"title": "uJ, estimated"}},
    )


_FIGURES = {
    **{section: _breakdown(section) for section in _BREAKDOWNS},
    "products": _roofline,
    "bandwidth": _crossings,
    "ablations": _ablations,
    "energy": _energy,
}
