"""Reports of specialised models: means over seeds, and a page with what was removed and what that costs."""

import html
import json
from pathlib import Path
from statistics import mean, stdev

import bertha.page
from bertha.errors import UserError
from bertha.page import plot
from bertha.specialise.run import REPORT

__all__ = ["mean_rows", "read_reports", "write_page"]


def read_reports(folders) -> list[dict]:
    """What `bertha specialise` wrote beside some models.

    Raises
    ------
    UserError
        If a folder has no report, or it can't be read.
    """
    reports = []
    for folder in folders:
        path = Path(folder) / REPORT
        try:
            report = json.loads(path.read_text(encoding="utf-8"))
            report["search"], report["models"]["baseline"]
        except OSError as error:
            raise UserError(f"{path} must be a report of bertha specialise: {error.strerror}") from None
        except (ValueError, KeyError, TypeError):
            raise UserError(f"{path} must be a report of bertha specialise, but is damaged") from None
        reports.append(report)
    return reports


def mean_rows(reports) -> list[tuple[str, ...]]:
    """Cells of a table: each task's models, means over the reports (seeds) of one method and budget."""
    groups = {}
    for report in reports:
        for title, model in report["models"].items():
            name = (
                title if title == "baseline" else f"{title}, {report['method']}, {report['budget']:g} points"
            )
            groups.setdefault((report["task"], name), []).append((model, report["models"]["baseline"]))
    rows = []
    for (task, name), found in groups.items():
        models = [model for model, _ in found]
        accuracy = [100 * model["accuracy"] for model in models]
        lost = [
            100 * (model["integer"] - model["float_there"])
            for model in models
            if model["integer"] is not None
        ]
        rows.append(
            (
                task,
                name,
                str(len(models)),
                f"{mean(accuracy):.2f} ± {100 * mean(model['standard_error'] for model in models):.2f}",
                f"{stdev(accuracy):.2f}" if len(accuracy) > 1 else "",
                f"{mean(lost):+.2f}" if lost else "",
                f"{100 * models[0]['majority']:.1f}",
                f"{mean(model['parameters'] for model in models):,.0f}",
                f"{mean(model['weight_bytes'] for model in models):,.0f}",
                f"{mean(model['cycles'] for model in models):,.0f}",
                f"{mean(base['cycles'] / model['cycles'] for model, base in found):.2f}",
            )
        )
    return rows


def write_page(path, reports) -> Path:
    """A page that needs nothing else: accuracy against cycles on the rows that judge, and each model's layers."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    figure = make_subplots(
        rows=1 + len(reports),
        cols=2,
        specs=[[{"colspan": 2}, None], *[[{}, {}] for _ in reports]],
        row_heights=[2, *[1] * len(reports)],
        subplot_titles=[
            "accuracy on the rows that judge, against predicted cycles",
            *[part for report in reports for part in (f"{_title(report)}: heads", "neurons")],
        ],
    )
    for report in reports:
        search = report["search"]
        points = [search["whole"], *search["rungs"]]
        figure.add_trace(
            go.Scatter(
                x=[point["cycles"] for point in points],
                y=[100 * point["accuracy"] for point in points],
                mode="lines+markers",
                name=html.escape(_title(report)),
            ),
            row=1,
            col=1,
        )
    figure.update_xaxes(title_text="cycles of a run", row=1, col=1)
    figure.update_yaxes(title_text="% right", row=1, col=1)
    for row, report in enumerate(reports, 2):
        whole, left = report["models"]["baseline"]["sizes"], report["models"]["pruned"]["sizes"]
        layers = [f"layer {index}" for index in range(len(whole))]
        for column in (0, 1):
            kept = [size[column] for size in left]
            gone = [size[column] - count for size, count in zip(whole, kept)]
            for name, counts, colour in (("left", kept, "seagreen"), ("removed", gone, "lightgray")):
                bars = go.Bar(
                    x=counts, y=layers, orientation="h", name=name, marker_color=colour, showlegend=False
                )
                figure.add_trace(bars, row=row, col=column + 1)
    figure.update_layout(barmode="stack")
    contents = [plot(figure, height=420 + 260 * len(reports))]
    return bertha.page.write_page(path, title="Specialised models", contents=contents)


def _title(report):
    return f"{report['task']}, {report['model']}, {report['method']}, {report['budget']:g} points"
