"""A run's report as a page to look at: `report.html`."""

from pathlib import Path

import numpy as np

from bertha.compiler.attribution import CAUSES, by_layer, by_purpose, total_of
from bertha.compiler.operations import PURPOSES
from bertha.page import COLOURS, axis, plot, section, table, write_page
from bertha.rtl.counters.classes import CycleClass
from bertha.sim.engine_tables import CLASS_NAMES
from bertha.sim.memory import TRACE_ENGINES
from bertha.sim.tables import summary, what_ran
from bertha.sim.timeline import events, states
from bertha.tables import operation_cells, operation_columns

__all__ = ["write_report_page"]

_ENGINES = ("gemm", "vector", "load", "store")  # from the top
_MOST_BARS = 1500  # of an engine's commands in the timeline
_MOST_BINS = 400  # of the engines' states over time
_PURPOSE_COLOURS = dict(zip(PURPOSES, COLOURS))
_CLASS_COLOURS = {
    "working": "#2a9d55",
    "filling": "#a8d8b0",
    "semaphore_load": "#f2a541",
    "semaphore_store": "#c77d19",
    "semaphore_gemm": "#7aa6e0",
    "semaphore_vector": "#9b6fc4",
    "semaphore_nobody": "#000000",
    "scratchpad": "#e8d44d",
    "dram_read": "#d9534f",
    "dram_write": "#8f2f2c",
    "command": "#c3cad1",
    "idle": "#e9ecef",
}


def write_report_page(report, runs, outcomes, file) -> Path:
    """Writes the page.

    Parameters
    ----------
    report : sim.report.RunReport
    runs : list
        With `program` and `ranges`. The timeline is the first one's.
    outcomes : list of sim.job.Outcome
        Of each run.
    file : Path
    """
    contents = [
        section("Summary", table(("", ""), summary(report), text=(0, 1), wrap=(1,))),
        _operations(report),
        _layers(report),
        _engines(report),
        _roofline(report, runs[0].program.config),
        _timeline(runs[0], outcomes[0], several=len(runs) > 1),
        _accuracy(report),
    ]
    return write_page(file, title=f"{what_ran(report)} on {report.preset}", contents=contents)


def _operations(report):
    costs = by_purpose(report.attribution)
    if len({cost.layer for cost in report.attribution} - {None}) > 1:
        costs.append(total_of(report.attribution, layer=None, name="all", purpose="all"))
    return section(
        "Operations",
        _cost_table("operation", costs, report),
        _cause_plot(by_purpose(report.attribution)),
        note=(
            "Cycles are the array's time: it worked for the operation or stood still before it, so they add up to the run's. "
            "What runs beside the array has none. Of least: DRAM bytes as a multiple of weights, inputs and results once each. "
            f"Intensity: MACs a byte if every operand and result is moved once. {_causes_note(report)}"
        ),
    )


def _causes_note(report):
    if report.causes_from == "counters":
        return "What bounds an operation was counted, cycle by cycle."
    return "This accelerator has no cycle counters: what bounds an operation is what the cycle model says."


def _layers(report):
    costs = by_layer(report.attribution)
    if len(costs) > 1:
        costs.append(total_of(report.attribution, layer=None, name="all", purpose="all"))
    return section(
        "Layers",
        _cost_table("layer", costs, report),
        note="From the end of the layer before in the array to its own; the vector engine may still be at work for it.",
    )


def _cost_table(first, costs, report):
    rows = [operation_cells(cost, report.cycles, report.array_n) for cost in costs]
    return table(operation_columns(first), rows, total=len(costs) > 1 and costs[-1].name == "all")


def _cause_plot(costs):
    import plotly.graph_objects as go

    costs = [cost for cost in costs if cost.cycles and cost.causes][::-1]
    if not costs:
        return ""
    figure = go.Figure()
    colours = dict(zip(CAUSES, ("#2a9d55", "#9b6fc4", "#d9534f", "#c3cad1")))
    for cause in CAUSES:
        shares = [cost.causes.get(cause, 0) / sum(cost.causes.values()) for cost in costs]
        figure.add_bar(
            orientation="h",
            y=[cost.name for cost in costs],
            x=[share * cost.cycles for share, cost in zip(shares, costs)],
            name=cause,
            marker_color=colours[cause],
            customdata=[100 * share for share in shares],
            hovertemplate=f"%{{y}}: {cause}<br>%{{x:,.0f}} cycles, %{{customdata:.2f}} % of its own<extra></extra>",
        )
    figure.update_layout(
        barmode="stack",
        xaxis=axis("cycles of the run"),
        yaxis=axis(""),
        legend={"title": {"text": "bound by"}, "traceorder": "normal"},
        margin={"t": 20},
    )
    return plot(figure, height=110 + 30 * len(costs))


def _engines(report):
    import plotly.graph_objects as go

    figure = go.Figure()
    if report.engines:
        engines = [engine for engine in _ENGINES if engine in report.engines]
        spent = {
            name: [report.engines[engine][name] for engine in engines]
            for name in CLASS_NAMES
            if any(classes[name] for classes in report.engines.values())
        }
        note = "Every cycle from the doorbell to the interrupt is in exactly one class of every engine."
    else:
        engines = list(_ENGINES)
        busy = [report.engine_busy[engine] for engine in engines]
        spent = {"working": busy, "idle": [report.cycles - count for count in busy]}
        note = (
            "This accelerator has no cycle counters: it counts only the cycles in which an engine was active."
        )
    names = CLASS_NAMES if report.engines else {"working": "active", "idle": "not active"}
    for name, counts in spent.items():
        figure.add_bar(
            orientation="h",
            y=engines,
            x=[100 * count / report.cycles for count in counts],
            name=names[name],
            marker_color=_CLASS_COLOURS[name],
            customdata=counts,
            hovertemplate=f"%{{y}}: {names[name]}<br>%{{customdata:,}} cycles, %{{x:.2f}} %<extra></extra>",
        )
    figure.update_layout(
        barmode="stack",
        xaxis=axis("share of the run's cycles (%)") | {"range": [0, 100]},
        yaxis=axis("engine") | {"autorange": "reversed"},
        legend={"traceorder": "normal"},
        margin={"t": 20},
    )
    return section("Where each engine's cycles went", plot(figure, height=320), note=note)


def _roofline(report, config):
    import plotly.graph_objects as go

    peak, bandwidth = report.array_n**2, min(report.memory_bandwidth, 2 * config.axi_data_bytes)
    products = [cost for cost in report.attribution if cost.macs and cost.busy.get("gemm") and cost.cycles]
    places = [
        (cost, intensity, known)
        for cost in products
        for intensity, known in ((cost.intensity, True), (cost.dram_intensity, False))
        if intensity
    ]
    figure = go.Figure()
    for purpose in dict.fromkeys(cost.purpose for cost in products):
        for known, symbol in ((True, "circle"), (False, "diamond-open")):
            mine = [(c, x) for c, x, k in places if c.purpose == purpose and k == known]
            if not mine:
                continue
            figure.add_scatter(
                x=[x for _, x in mine],
                y=[cost.macs / cost.cycles for cost, _ in mine],
                mode="markers",
                name=purpose if known else f"{purpose}, by DRAM bytes moved",
                legendgroup=purpose,
                marker={"symbol": symbol, "size": 10, "color": _PURPOSE_COLOURS[purpose]},
                text=[_product_text(cost, report) for cost, _ in mine],
                hovertemplate="%{text}<br>%{x:,.1f} MACs a byte, %{y:,.2f} MACs a cycle<extra></extra>",
            )
    intensities = [x for _, x, _ in places] + [peak / bandwidth]
    left, right = 0.5 * min(intensities), 2 * max(intensities)
    ridge = peak / bandwidth
    figure.add_scatter(
        x=[left, ridge, right],
        y=[left * bandwidth, peak, peak],
        mode="lines",
        name="roof",
        line={"color": "#1c2733", "width": 2},
        hovertemplate=f"{peak:,} MACs a cycle, {bandwidth:g} bytes a cycle<extra>roof</extra>",
    )
    figure.update_layout(
        xaxis=axis("arithmetic intensity (MACs a byte)") | {"type": "log"},
        yaxis=axis("speed (MACs a cycle)") | {"type": "log"},
        margin={"t": 20},
    )
    return section(
        "Roofline",
        plot(figure, height=520),
        note=(
            f"Every GEMM of every layer, and what {peak:,} multipliers and {bandwidth:g} bytes a cycle allow. Dots: each operand "
            "and result moved once. Open diamonds: by the bytes that were moved from and to DRAM, since most stay in the "
            "scratchpad; what none is moved for has no diamond."
        ),
    )


def _product_text(cost, report):
    where = "" if cost.layer is None else f", layer {cost.layer}"
    speed = 100 * cost.macs / (report.array_n**2 * cost.cycles)
    return (
        f"{cost.name}{where}<br>{cost.macs:,} MACs in {cost.cycles:,} cycles, {speed:.1f} % of the peak"
        f"<br>operands and results {cost.operand_bytes:,} bytes, DRAM {cost.dram_bytes:,} bytes"
    )


def _timeline(run, outcome, *, several):
    from plotly.subplots import make_subplots

    over_time = states(outcome, _MOST_BINS)
    rows = 1 + (len(_ENGINES) if over_time else 0)
    heights = [0.36] + [0.64 / (rows - 1)] * (rows - 1) if over_time else [1]
    figure = make_subplots(
        rows=rows,
        cols=1,
        shared_xaxes=True,
        vertical_spacing=0.035,
        row_heights=heights,
        subplot_titles=["commands", *(f"{engine}: what it was in" for engine in _ENGINES[: rows - 1])],
    )
    _add_commands(figure, events(run, outcome))
    if over_time:
        _add_states(figure, over_time, outcome.cycles)
    figure.update_xaxes(range=[0, outcome.cycles], automargin=True)
    figure.update_xaxes(axis("cycles from the doorbell"), row=rows, col=1)
    if over_time:  # else the panels are too many for labels at each
        figure.update_yaxes(range=[0, 100], ticksuffix=" %", fixedrange=True)
    figure.update_yaxes(
        categoryorder="array",
        categoryarray=_ENGINES[::-1],
        range=[-0.5, 3.5],
        fixedrange=True,
        ticksuffix="",
        row=1,
        col=1,
    )
    figure.update_layout(
        barmode="overlay",
        bargap=0.25,
        legend={"groupclick": "togglegroup", "traceorder": "grouped"},
        margin={"t": 40},
        hovermode="closest",
    )
    which = "The first run. " if several else ""
    return section(
        "Timeline",
        plot(figure, height=900 if over_time else 360),
        note=f"{which}Drag or turn the wheel to zoom, double-click to see all. Neighbouring commands of an operation are one bar "
        "here; timeline.json has each, for ui.perfetto.dev or chrome://tracing.",
    )


def _add_commands(figure, found):
    bars = {}
    for engine in TRACE_ENGINES:
        for bar in _merged([event for event in found if event.engine == engine]):
            bars.setdefault(bar[0].purpose, []).append(bar)
    for purpose in PURPOSES:
        mine = bars.get(purpose)
        if not mine:
            continue
        figure.add_bar(
            orientation="h",
            y=[first.engine for first, *_ in mine],
            base=[start for _, start, *_ in mine],
            x=[end - start for _, start, end, *_ in mine],
            name=purpose,
            legendgroup="commands",
            legendgrouptitle_text="operation",
            marker={"color": _PURPOSE_COLOURS[purpose], "line": {"width": 0}},
            hovertext=[_bar_text(*bar) for bar in mine],
            hovertemplate="%{hovertext}<extra></extra>",
            row=1,
            col=1,
        )


def _merged(found):
    """Bars (first event, start, end, busy cycles, commands): neighbours of an operation as one, `_MOST_BARS` at most."""
    gap = 0
    while True:
        bars = []
        for event in found:
            last = bars[-1] if bars else None
            same = last and (last[0].layer, last[0].operation) == (event.layer, event.operation)
            if same or (last and event.end - last[1] < gap):
                last[2], last[3], last[4] = event.end, last[3] + event.busy, last[4] + 1
            else:
                bars.append([event, event.start, event.end, event.busy, 1])
        if len(bars) <= _MOST_BARS:
            return bars
        gap = 2 * gap or 64


def _bar_text(first, start, end, busy, commands):
    where = "" if first.layer is None else f", layer {first.layer}"
    name = first.name if commands == 1 else f"{first.operation}{where}: {commands:,} commands"
    return f"{name}<br>cycles {start:,} to {end:,}, active in {busy:,}"


def _add_states(figure, over_time, cycles):
    shares = 100 * over_time.counts / over_time.counts.sum(axis=2, keepdims=True)
    middles = np.clip(over_time.starts + over_time.cycles / 2, 0, cycles)
    shown = set()
    for row, engine in enumerate(_ENGINES, 2):
        mine = shares[:, TRACE_ENGINES.index(engine)]
        for name, label in CLASS_NAMES.items():
            values = mine[:, CycleClass[name.upper()].value]
            if not values.any():
                continue
            figure.add_scatter(
                x=middles.tolist(),
                y=values.round(2).tolist(),
                stackgroup=engine,
                mode="lines",
                line={"width": 0, "shape": "hvh"},
                fillcolor=_CLASS_COLOURS[name],
                name=label,
                legendgroup=name,
                legendgrouptitle_text=None if shown else "engine is",
                showlegend=name not in shown,
                hovertemplate=f"{engine}: {label}<br>%{{y:.1f}} % of {over_time.cycles:,} cycles at %{{x:,.0f}}<extra></extra>",
                row=row,
                col=1,
            )
            shown.add(name)


def _accuracy(report):
    import plotly.graph_objects as go

    whole = report.whole_model
    items = report.sentences if whole else report.sequences
    names = [str(number) for number in range(1, len(items) + 1)]
    texts = [item["text"] if whole else item["name"] for item in items]
    series = [("worst token", "cosine_min"), ("mean of its tokens", "cosine_mean")]
    if whole:
        series.append(("embedding", "embedding_cosine"))
    figure = go.Figure()
    for (name, key), colour, symbol in zip(series, COLOURS, ("triangle-down", "circle-open", "circle")):
        figure.add_scatter(
            x=names,
            y=[item[key] for item in items],
            mode="markers",
            name=name,
            marker={"size": 10, "color": colour, "symbol": symbol},
            text=[_short(text) for text in texts],
            customdata=[item["tokens"] for item in items],
            hovertemplate=f"%{{text}}<br>%{{customdata}} tokens<br>{name}: %{{y:.6f}}<extra></extra>",
        )
    figure.update_layout(
        xaxis=axis("sentence") | {"type": "category"}, yaxis=axis("cosine to PyTorch"), margin={"t": 20}
    )
    rows = [
        (number, _short(text), item["tokens"], *(f"{item[key]:.5f}" for _, key in series[::-1]))
        for number, text, item in zip(names, texts, items)
    ]
    head = ("", "sentence", "tokens", *(name for name, _ in series[::-1]))
    note = (
        "Cosine of the accelerator's numbers to those of the float model in PyTorch; 1 is the same direction."
    )
    return section(
        "Accuracy by sentence", plot(figure, height=380), table(head, rows, text=(1,), wrap=(1,)), note=note
    )


def _short(text):
    import html

    text = text or "random tokens"
    return html.escape(text if len(text) <= 90 else f"{text[:87]}...", quote=False)
