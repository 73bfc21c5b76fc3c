"""Where each engine's cycles went, as tables to read."""

from rich.table import Table

__all__ = ["CLASS_NAMES", "engine_table", "wait_table"]

CLASS_NAMES = {
    "working": "working",
    "filling": "filling or draining",
    "semaphore_load": "waiting for load",
    "semaphore_store": "waiting for store",
    "semaphore_gemm": "waiting for gemm",
    "semaphore_vector": "waiting for vector",
    "semaphore_nobody": "waiting for nobody",
    "scratchpad": "held up by the scratchpad",
    "dram_read": "waiting for DRAM reads",
    "dram_write": "waiting for DRAM writes",
    "command": "waiting for a command",
    "idle": "nothing left to do",
}
"""Readable names of the classes of cycles, in the order in which they are shown."""


def engine_table(report) -> Table:
    """Cycles of every class that any engine was in, an engine a column."""
    table = Table(title="Where each engine's cycles went", title_justify="left")
    table.add_column("engine is", no_wrap=True)
    totals = {engine: sum(classes.values()) for engine, classes in report.engines.items()}
    for engine in totals:
        table.add_column(engine, justify="right")
        table.add_column("of all", justify="right")
    for name, text in CLASS_NAMES.items():
        counts = {engine: classes[name] for engine, classes in report.engines.items()}
        if any(counts.values()):
            cells = [_cells(count, totals[engine]) for engine, count in counts.items()]
            table.add_row(text, *(cell for pair in cells for cell in pair))
    table.add_section()
    table.add_row("all", *(cell for total in totals.values() for cell in _cells(total, total)))
    return table


def wait_table(report) -> Table:
    """What the engines were in that the array waited for, most cycles first."""
    table = Table(title="What the array's waits came from", title_justify="left")
    for name in ("array waits for", "which is"):
        table.add_column(name, no_wrap=True)
    for name in ("cycles", "of all"):
        table.add_column(name, justify="right")
    rows = [
        (count, engine, name)
        for engine, classes in report.array_waits.items()
        for name, count in classes.items()
        if count
    ]
    total = sum(report.engines["gemm"].values())
    for count, engine, name in sorted(rows, reverse=True):
        table.add_row(engine, CLASS_NAMES[name], *_cells(count, total))
    return table


def _cells(count, total):
    return (f"{count:,}", f"{100 * count / total:.2f} %") if count else ("", "")
