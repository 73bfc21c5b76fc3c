"""Where each engine's cycles went, as tables to read."""

from rich.table import Table

from bertha.tables import cycles_table

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
    return cycles_table(
        report.engines, CLASS_NAMES, title="Where each engine's cycles went", first="engine is"
    )


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
        table.add_row(engine, CLASS_NAMES[name], f"{count:,}", f"{100 * count / total:.2f} %")
    return table
