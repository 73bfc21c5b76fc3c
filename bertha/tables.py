"""Tables that simulated runs and predictions show alike."""

from rich.table import Table

__all__ = ["cycles_table", "operation_cells", "operation_columns", "operation_table"]

_COLUMNS = (
    "cycles",
    "of all",
    "array works",
    "vector busy",
    "MACs",
    "utilisation",
    "DRAM bytes",
    "of least",
    "MACs/byte",
    "bound by",
)


def operation_columns(first) -> tuple[str, ...]:
    """Names of the columns of `operation_cells`, the first of them `first`."""
    return (first, *_COLUMNS)


def operation_cells(cost, cycles, array_n) -> list[str]:
    """One operation's row.

    Parameters
    ----------
    cost : compiler.attribution.OperationCost
    cycles : int
        Of the whole run.
    array_n : int
    """
    array = cost.busy.get("gemm", 0)
    bound = cost.bound
    if bound:
        bound += f" {100 * cost.causes[bound] / sum(cost.causes.values()):.0f} %"
    return [
        cost.name,
        _number(cost.cycles),
        _share(cost.cycles, cycles),
        _share(array, cost.cycles),
        _number(cost.busy.get("vector", 0)),
        _number(cost.macs),
        _share(cost.macs, array_n**2 * cost.cycles),
        _number(cost.dram_bytes),
        f"{cost.dram_bytes / cost.least_bytes:.2f} x" if cost.least_bytes else "",
        f"{cost.intensity:.1f}" if cost.intensity else "",
        bound or "",
    ]


def operation_table(costs, cycles, array_n, *, title, first="operation") -> Table:
    """A row for each of the costs; the parameters are those of `operation_cells`."""
    table = Table(title=title, title_justify="left", padding=(0, 0), collapse_padding=True)
    name, *others = operation_columns(first)
    table.add_column(name, no_wrap=True)
    for other in others:
        table.add_column(other, justify="right", no_wrap=True)
    for cost in costs:
        table.add_row(*operation_cells(cost, cycles, array_n))
    return table


def cycles_table(engines, names, *, title, first) -> Table:
    """What every engine's cycles went to, an engine a column; what no engine did has no row.

    Parameters
    ----------
    engines : dict of str to dict of str to int
        Cycles by engine and what they went to; each engine's add up to the run's.
    names : dict of str to str
        What they may go to, in the order of the rows, and how a reader is told.
    """
    table = Table(title=title, title_justify="left")
    table.add_column(first, no_wrap=True)
    totals = {engine: sum(spent.values()) for engine, spent in engines.items()}
    for engine in totals:
        table.add_column(engine, justify="right")
        table.add_column("of all", justify="right")
    for name, text in names.items():
        counts = {engine: spent.get(name, 0) for engine, spent in engines.items()}
        if any(counts.values()):
            table.add_row(
                text, *(cell for e in engines for cell in (_number(counts[e]), _share(counts[e], totals[e])))
            )
    table.add_section()
    table.add_row(
        "all", *(cell for total in totals.values() for cell in (_number(total), _share(total, total)))
    )
    return table


def _number(value):
    return f"{value:,}" if value else ""


def _share(part, whole):
    return f"{100 * part / whole:.2f} %" if part and whole else ""
