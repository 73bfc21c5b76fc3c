"""What a run found, as tables to read and as JSON."""

import json
import os
import re
from dataclasses import asdict, dataclass

import numpy as np
from rich.markup import escape
from rich.table import Table

__all__ = ["Operation", "RunReport", "fold", "operations", "print_report", "write_report"]


@dataclass(frozen=True, kw_only=True)
class Operation:
    """Commands of one engine that belong together.

    Attributes
    ----------
    name : str
    engine : str
    start, end : int
        First and last cycle in which one of them was active, from the doorbell.
    busy_cycles : int
        Cycles in which one of them was active.
    macs : int
        The model's own multiply-accumulates in it, of real tokens only.
    dram_bytes : int
    commands : int
    """

    name: str
    engine: str
    start: int
    end: int
    busy_cycles: int
    macs: int
    dram_bytes: int
    commands: int


def operations(commands, trace, ranges=None) -> list[Operation]:
    """Operations of a program in the order in which they start.

    Parameters
    ----------
    commands : list of compiler.program.Command
    trace : dict of str to array
        Rows of `bertha.sim.memory.Trace` by engine.
    ranges : int [S, 2], optional
        The keys that each row sees: only those multiply-accumulates count. By default all do.
    """
    single = []
    for index, command in enumerate(commands):
        engine = command.engine.name.lower()
        rows = trace.get(engine, ())
        if index < len(rows) and rows[index]["busy"]:
            row = rows[index]
            single.append(
                Operation(
                    name=command.name,
                    engine=engine,
                    start=int(row["first"]),
                    end=int(row["last"]),
                    busy_cycles=int(row["busy"]),
                    macs=command.macs(ranges),
                    dram_bytes=command.dram_bytes,
                    commands=1,
                )
            )
    return fold(single, lambda name: name)


def fold(items, name_of) -> list[Operation]:
    """Operations of the same engine whose `name_of(name)` is the same, as one each, in order of their start."""
    folded = {}
    for item in items:
        key = (name_of(item.name), item.engine)
        old = folded.get(key)
        folded[key] = Operation(
            name=key[0],
            engine=item.engine,
            start=min(item.start, old.start) if old else item.start,
            end=max(item.end, old.end) if old else item.end,
            busy_cycles=item.busy_cycles + (old.busy_cycles if old else 0),
            macs=item.macs + (old.macs if old else 0),
            dram_bytes=item.dram_bytes + (old.dram_bytes if old else 0),
            commands=item.commands + (old.commands if old else 0),
        )
    return sorted(folded.values(), key=lambda item: (item.start, item.end))


def _general(name):
    """The operation without its layer and the number of its head or panel: what one row of the table shows."""
    return ".".join(part for part in name.split(".") if not re.fullmatch(r"(layer|head|panel)\d+", part))


@dataclass(frozen=True, kw_only=True)
class RunReport:
    """Everything a run found; the fields are the keys of report.json.

    A multiply-accumulate counts as the model's own if it is one of the matrix products of real tokens, with real
    tokens: neither padding tokens, which the array works on all the same, nor duplicated columns count.

    Attributes
    ----------
    tokens, padding : int
        Real tokens and padding tokens, all sequences together.
    truncated : int
        Sequences whose text had more than S tokens.
    cycles : int
        From the doorbell write to the completion interrupt, all sequences together.
    macs : int
        The model's own multiply-accumulates, all sequences together.
    utilization : float
        macs / (N² · cycles).
    padded_macs, padded_utilization : int, float
        The same with padding tokens counted as if they were real.
    bit_exact : bool
        Every byte of every result equals the integer model's, and no other byte was changed.
    first_difference : str or None
    cosine_min, cosine_mean, snr_db, max_error : float
        Against PyTorch, over the real tokens of all sequences.
    ops : list of Operation
        Of the first sequence.
    sequences : list of dict
        Figures of each sequence.
    """

    preset: str
    array_n: int
    model: str
    trained: bool
    layers: list
    seq: int
    tokens: int
    padding: int
    truncated: int
    memory_latency: int
    memory_bandwidth: float
    cycles: int
    macs: int
    utilization: float
    padded_macs: int
    padded_utilization: float
    bit_exact: bool
    first_difference: str | None
    cosine_min: float
    cosine_mean: float
    snr_db: float
    max_error: float
    sim_seconds: float
    sim_cycles_per_second: float
    dram_bytes_read: int
    dram_bytes_written: int
    engine_busy: dict
    sequences: list
    ops: list


def write_report(report, file) -> None:
    """Writes report.json, whole or not at all."""
    text = json.dumps(asdict(report), indent=2, default=lambda value: value.item())
    draft = file.with_name(f"{file.name}.new")
    draft.write_text(text + "\n", encoding="utf-8")
    os.replace(draft, file)


def _operation_table(report):
    table = Table(
        title=escape(f"Operations, cycles from the doorbell ({report.sequences[0]['name']})"),
        title_justify="left",
    )
    table.add_column("operation", no_wrap=True)
    table.add_column("engine")
    for name in ("commands", "start", "end", "busy cycles", "MACs", "utilisation", "DRAM bytes"):
        table.add_column(name, justify="right")
    for item in fold(report.ops, _general):
        peak = report.array_n**2 * item.busy_cycles
        table.add_row(
            escape(item.name),
            item.engine,
            f"{item.commands:,}",
            f"{item.start:,}",
            f"{item.end:,}",
            f"{item.busy_cycles:,}",
            f"{item.macs:,}" if item.macs else "",
            f"{100 * item.macs / peak:.1f} %" if item.macs else "",
            f"{item.dram_bytes:,}" if item.dram_bytes else "",
        )
    return table


def _sequence_table(report):
    table = Table(title="Sequences", title_justify="left")
    table.add_column("sequence", overflow="ellipsis", no_wrap=True, max_width=40)
    for name in (
        "tokens",
        "cycles",
        "utilisation",
        "bit exact",
        "cosine min",
        "cosine mean",
        "SNR dB",
        "max error",
    ):
        table.add_column(name, justify="right")
    for item in report.sequences:
        table.add_row(
            escape(item["name"]),
            f"{item['tokens']}" + (" (truncated)" if item["truncated"] else ""),
            f"{item['cycles']:,}",
            f"{100 * item['utilization']:.2f} %",
            "yes" if item["bit_exact"] else "NO",
            f"{item['cosine_min']:.5f}",
            f"{item['cosine_mean']:.5f}",
            f"{item['snr_db']:.1f}",
            f"{item['max_error']:.4f}",
        )
    return table


def _tokens(report):
    """How many tokens were real; what the user's text lost or was filled up with."""
    padding = "no padding"
    if report.padding:
        padding = f"{report.padding:,} {'is' if report.padding == 1 else 'are'} padding"
    lost = ""
    if report.truncated:
        whose = f"{report.truncated} of {len(report.sequences)} sequences truncated"
        if len(report.sequences) == 1:
            whose = "the text was truncated"
        lost = f"; {whose} to {report.seq} token{'s' * (report.seq > 1)}"
    return f"{report.tokens:,} real of {report.tokens + report.padding:,}, {padding}{lost}"


def _summary(report):
    kind = "" if report.trained else " (random weights, not a trained model)"
    share = {name: 100 * busy / report.cycles for name, busy in report.engine_busy.items()}
    exact = (
        "every byte equals the integer model" if report.bit_exact else f"DIFFERENT: {report.first_difference}"
    )
    of_real = by_real = ""
    if report.padding:
        of_real = f" of real tokens ({report.padded_macs:,} with padding)"
        by_real = f" by real tokens, {100 * report.padded_utilization:.2f} % with padding"
    return [
        ("model", f"{report.model}{kind}, layer {report.layers[0]}, S = {report.seq}"),
        (
            "hardware",
            (
                f"{report.preset}, {report.array_n} x {report.array_n}; memory {report.memory_latency} cycles, "
                f"{report.memory_bandwidth:g} bytes a cycle"
            ),
        ),
        ("tokens", _tokens(report)),
        ("cycles", f"{report.cycles:,} from doorbell to interrupt, {report.macs:,} MACs{of_real}"),
        ("utilisation", f"{100 * report.utilization:.2f} % of {report.array_n**2} MACs a cycle{by_real}"),
        ("busy", ", ".join(f"{name} {value:.1f} %" for name, value in share.items())),
        ("DRAM", f"{report.dram_bytes_read:,} bytes read, {report.dram_bytes_written:,} written"),
        ("integer model", exact),
        (
            "PyTorch",
            (
                f"cosine {report.cosine_mean:.5f} mean, {report.cosine_min:.5f} worst token; "
                f"SNR {report.snr_db:.1f} dB; largest error {report.max_error:.4f}"
            ),
        ),
        ("simulation", f"{report.sim_seconds:.1f} s, {report.sim_cycles_per_second:,.0f} cycles/s"),
    ]


def print_report(report, console) -> None:
    """Prints the tables."""
    console.print(_operation_table(report))
    if len(report.sequences) > 1:
        console.print(_sequence_table(report))
    width = max(len(label) for label, _ in _summary(report))
    for label, text in _summary(report):
        console.print(f"{label:<{width}}  {text}", soft_wrap=True, highlight=False, markup=False)


def describe_difference(result, expected):
    """Where two integer arrays first differ, or None."""
    places = np.argwhere(result != expected)
    if not len(places):
        return None
    token, feature = places[0]
    return (
        f"{len(places):,} of {expected.size:,} values, first at token {token}, feature {feature}: "
        f"{result[token, feature]} instead of {expected[token, feature]}"
    )
