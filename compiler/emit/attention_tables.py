"""Tables and records that attention needs, from DRAM."""

__all__ = ["load_layer_tables"]


def load_layer_tables(emitter) -> None:
    """Load what a layer has in tables and few records."""
    layout = emitter.layout
    if layout.context_records.lines:
        emitter.load_region("context.records", layout.context_records, "context_records")
    emitter.load_region("gelu.table", layout.piecewise, "piecewise")
