"""A run's report as tables to read."""

from rich.markup import escape
from rich.table import Table

from bertha.compiler.attribution import by_layer, by_purpose
from bertha.compiler.operations import general_name
from bertha.sim.engine_tables import engine_table, wait_table
from bertha.sim.report import fold, printable
from bertha.tables import operation_table

__all__ = ["print_report", "summary", "what_ran"]

_MOST_SENTENCES = 20


def _operation_table(report):
    table = Table(
        title=escape(f"Operations, cycles from the doorbell ({report.sequences[0]['name']})"),
        title_justify="left",
    )
    table.add_column("operation", no_wrap=True)
    table.add_column("engine")
    for name in ("commands", "start", "end", "busy cycles", "MACs", "utilisation", "DRAM bytes"):
        table.add_column(name, justify="right")
    for item in fold(report.ops, general_name):
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
    what = "run" if report.whole_model else "sequence"
    table = Table(title=f"{what.capitalize()}s", title_justify="left")
    table.add_column(what, overflow="ellipsis", no_wrap=True, max_width=40)
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


def _cost_table(report, costs, title, first="operation"):
    return operation_table(costs, report.cycles, report.array_n, title=title, first=first)


def _sentence_table(report):
    """The sentences; of many, those that are furthest from PyTorch."""
    shown, title = report.sentences, "Sentences"
    if len(shown) > _MOST_SENTENCES:
        shown = sorted(shown, key=lambda item: item["embedding_cosine"])[:_MOST_SENTENCES]
        title = f"The {_MOST_SENTENCES} of {len(report.sentences):,} sentences that are furthest from PyTorch"
    table = Table(title=title, title_justify="left")
    table.add_column("sentence", overflow="ellipsis", no_wrap=True, max_width=60)
    for name in ("tokens", "run", "embedding cosine", "worst token"):
        table.add_column(name, justify="right")
    for item in shown:
        table.add_row(
            escape(printable(item["text"]) or "random tokens"),
            f"{item['tokens']}" + (" (truncated)" if item["truncated"] else ""),
            f"{item['run'] + 1}",
            f"{item['embedding_cosine']:.5f}",
            f"{item['cosine_min']:.5f}",
        )
    return table


def _tokens(report):
    """How many tokens were real; what the user's text lost or was filled up with."""
    padding = "no padding"
    if report.padding:
        padding = f"{report.padding:,} {'is' if report.padding == 1 else 'are'} padding"
    lost = ""
    if report.truncated:
        noun = "sentences" if report.whole_model else "sequences"
        whose = f"{report.truncated} of {len(report.sentences)} {noun} truncated"
        if len(report.sentences) == 1:
            whose = "the text was truncated"
        lost = f"; {whose} to {report.seq} token{'s' * (report.seq > 1)}"
    return f"{report.tokens:,} real of {report.tokens + report.padding:,}, {padding}{lost}"


def what_ran(report) -> str:
    """What a report is about."""
    kind = "" if report.trained else " (random weights, not a trained model)"
    if not report.whole_model:
        return f"{report.model}{kind}, layer {report.layers[0]}, S = {report.seq}"
    norm = "embedding LayerNorm and " if report.embedding else ""
    return f"{report.model}{kind}, {norm}{len(report.layers)} layers, {report.recipe}"


def _packing(report):
    runs = len(report.sequences)
    made = "one program for all packings"
    if report.packing == "static":
        made = "a program for each packing" if runs > 1 else "a program for this packing"
    return (
        f"{_counted(len(report.sentences), 'sentence')} in {_counted(runs, 'run')} of at most "
        f"{_counted(report.seq, 'token')}, {made}"
    )


def _counted(number, what):
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _utilisation(report):
    peak = f"of {report.array_n**2} MACs a cycle"
    useful, padded = 100 * report.utilization, 100 * report.padded_utilization
    if report.whole_model:
        busy = 100 * report.engine_busy["gemm"] / report.cycles
        return (
            f"{useful:.2f} % {peak} useful (each sentence's own), {padded:.2f} % with padding and masked keys; "
            f"array {busy:.2f} % busy"
        )
    if report.padding:
        return f"{useful:.2f} % {peak} by real tokens, {padded:.2f} % with padding"
    return f"{useful:.2f} % {peak}"


def _operand(report):
    if report.input_operand == "host":
        return "int8 operand of the layer's input: made by the host"
    return "int8 operands of all layers: made on the accelerator"


def _saturations(report):
    if not report.saturations:
        return "none"
    worst = sorted(report.saturations.items(), key=lambda item: -item[1])[:3]
    named = ", ".join(f"{count:,} in {name}" for name, count in worst)
    more = ", ..." if len(report.saturations) > len(worst) else ""
    return f"{sum(report.saturations.values()):,} values ({named}{more})"


def summary(report) -> list[tuple[str, str]]:
    """What a report says in short: pairs of a name and a sentence."""
    share = {name: 100 * busy / report.cycles for name, busy in report.engine_busy.items()}
    exact = (
        "every byte equals the integer model" if report.bit_exact else f"DIFFERENT: {report.first_difference}"
    )
    if report.bit_exact and report.whole_model:
        exact += ", packed and each sentence alone"
    of_real = f" of real tokens ({report.padded_macs:,} with padding)" if report.padding else ""
    lines = [
        ("model", what_ran(report)),
        (
            "hardware",
            (
                f"{report.preset}, {report.array_n} x {report.array_n}; memory {report.memory_latency} cycles, "
                f"{report.memory_bandwidth:g} bytes a cycle"
            ),
        ),
        ("tokens", _tokens(report)),
        ("cycles", f"{report.cycles:,} from doorbell to interrupt, {report.macs:,} MACs{of_real}"),
        ("utilisation", _utilisation(report)),
        ("busy", ", ".join(f"{name} {value:.1f} %" for name, value in share.items())),
        ("DRAM", f"{report.dram_bytes_read:,} bytes read, {report.dram_bytes_written:,} written"),
        ("operands", _operand(report)),
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
    if report.whole_model:
        lines.insert(3, ("packing", _packing(report)))
        embeddings = (
            f"cosine to PyTorch {report.embedding_cosine_mean:.5f} mean, "
            f"{report.embedding_cosine_min:.5f} worst sentence"
        )
        lines.insert(-1, ("embeddings", embeddings))
        lines.insert(-1, ("saturated", _saturations(report)))
    return lines


def print_report(report, console) -> None:
    """Prints the tables."""
    if report.whole_model:
        costs = by_layer(report.attribution)
        console.print(
            _cost_table(report, costs, "Layers, from the end of the one before in the array", "layer")
        )
        console.print(_cost_table(report, by_purpose(report.attribution), "Operations, all layers"))
        console.print(_sentence_table(report))
    else:
        console.print(_operation_table(report))
        console.print(_cost_table(report, by_purpose(report.attribution), "Operations of all sequences"))
    if report.engines:
        console.print(engine_table(report))
    if any(sum(classes.values()) for classes in report.array_waits.values()):
        console.print(wait_table(report))
    if len(report.sequences) > 1:
        console.print(_sequence_table(report))
    lines = summary(report)
    width = max(len(label) for label, _ in lines)
    for label, text in lines:
        console.print(f"{label:<{width}}  {text}", soft_wrap=True, highlight=False, markup=False)
