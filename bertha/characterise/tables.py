"""The study's results as tables: lists of rows for files, and for a terminal."""

import math

from rich.table import Table

from bertha.characterise.intensity import products
from bertha.compiler.operations import KINDS
from bertha.models.shapes import model_shape

__all__ = ["TITLES", "as_table", "rows_of"]

TITLES = {
    "length": "Length: what the array's time goes to, in %, waits before an operation as its own",
    "batch": "Batch: sentences packed into a run",
    "width": "Width of the array",
    "recipe": "Recipes",
    "products": "Products of a layer: intensity if every matrix is moved once, and what is moved here",
    "bandwidth": "Bytes a cycle below which memory is waited for in more than 5 % of an operation's time",
    "ablations": "Ablations: what the drain does, done apart; data read anew",
    "energy": "Energy, an ESTIMATE (Horowitz, ISSCC 2014, 45 nm; no wires, registers, clock, leakage)",
}
_TIME = [kind for kind in KINDS if "DMA" not in kind] + ["end"]
_CHOSEN = ("tokens", "sentences", "preset", "recipe", "ridge")


def rows_of(section, points, results) -> list[dict]:
    """Rows of a section: dicts with the same keys.

    Parameters
    ----------
    points : list of Point
    results : dict
        By a point's key, of `bertha.characterise.measure` (or `bandwidth`).
    """
    found = [(point, results[point.key]) for point in points]
    found = [(point, result) for point, result in found if not result.get("error")]
    return _ROWS[section](found)


def _breakdown(found):
    rows = []
    kinds = [kind for kind in _TIME if any(result["time"].get(kind) for _, result in found)]
    for point, result in found:
        cycles = result["cycles"]
        rows.append(
            {
                "model": point.model,
                "tokens": point.tokens,
                "sentences": len(point.sentences) or 1,
                "preset": point.preset,
                "recipe": point.recipe,
                "cycles": cycles,
                "cycles a token": cycles / point.tokens,
                "utilisation %": 100 * result["utilization"],
                **{kind: 100 * result["time"].get(kind, 0) / cycles for kind in kinds},
                "waits for memory %": 100 * sum(result["stalls"].values()) / cycles,
                "vector busy %": 100 * sum(result["vector"].values()) / cycles,
                "MACs a DRAM byte": result["macs"] / (result["bytes_read"] + result["bytes_written"]),
            }
        )
    return rows


def _products(found):
    rows = []
    for point, result in found:
        shape = model_shape(point.model)
        peak, bandwidth = point.config.array_n**2, point.bytes_per_cycle
        layers = shape.layers
        for product in products(shape, point.tokens, point.recipe):
            weights = result["dram"].get(f"weights of {product.name}", 0)
            rows.append(
                {
                    "model": point.model,
                    "tokens": point.tokens,
                    "product": product.name,
                    "shape": f"{product.count} x {product.m} x {product.k} x {product.n}",
                    "MACs": product.macs,
                    "bytes, each once": product.bytes,
                    "MACs a byte": product.intensity,
                    "ridge": peak / bandwidth,
                    "bound if unfused": "memory" if product.intensity < peak / bandwidth else "array",
                    "DRAM bytes here": weights / layers,
                    "MACs a DRAM byte here": product.macs * layers / weights if weights else None,
                    "array waits for memory %": 100
                    * result["stalls"].get(product.name, 0)
                    / max(1, result["time"].get(product.name, 0)),
                }
            )
    return rows


def _crossings(found):
    rows = []
    for point, result in found:
        row = {"model": point.model, "tokens": point.tokens, "preset": point.preset, "recipe": point.recipe}
        for name, bandwidth in result["bandwidth"].items():
            if bandwidth is None:
                row[name] = f"under {result['lowest']:g}"
            elif math.isinf(bandwidth):
                row[name] = f"over {result['highest']:g}"
            else:
                row[name] = round(bandwidth, 2)
        rows.append(row)
    return rows


def _ablations(found):
    rows = []
    base = found[0][1] if found else {}

    def more(result, measure):
        return 100 * (measure(result) / measure(base) - 1)

    def moved(result):
        return result["bytes_read"] + result["bytes_written"]

    for point, result in found:
        rows.append(
            {
                "ablation": _short(point.ablations) or "none",
                "model": point.model,
                "cycles": result["cycles"],
                "cycles more %": more(result, lambda one: one["cycles"]),
                "DRAM bytes": moved(result),
                "DRAM more %": more(result, moved),
                "scratchpad bytes": result["scratchpad_bytes"],
                "scratchpad more %": more(result, lambda one: one["scratchpad_bytes"]),
                "energy more % (estimate)": more(result, lambda one: sum(one["energy"].values())),
                "waits for memory %": 100 * sum(result["stalls"].values()) / result["cycles"],
            }
        )
    return rows


def _short(text):
    """Long combinations in words."""
    from bertha.characterise.study import ALL_DRAM, ALL_PASSES

    return text.replace(ALL_DRAM, "all dram").replace(ALL_PASSES, "all pass")


def _energy(found):
    rows = []
    for point, result in found:
        total = sum(result["energy"].values())
        rows.append(
            {
                "model": point.model,
                "tokens": point.tokens,
                "preset": point.preset,
                "recipe": point.recipe,
                "uJ (estimate)": total / 1e6,
                **{f"{name} %": 100 * part / total for name, part in result["energy"].items()},
                "DRAM bytes": result["dram_bytes"],
                "scratchpad bytes": result["scratchpad_bytes"],
                "8-bit MACs": result["macs_8"],
                "pJ a useful MAC": total / result["macs"],
            }
        )
    return rows


_ROWS = {
    "length": _breakdown,
    "batch": _breakdown,
    "width": _breakdown,
    "recipe": _breakdown,
    "products": _products,
    "bandwidth": _crossings,
    "ablations": _ablations,
    "energy": _energy,
}


def as_table(section, rows) -> Table:
    """Rows for a terminal; what is the same in all rows of several, of what was chosen, isn't shown."""
    table = Table(title=TITLES[section], title_justify="left")
    same = {name for name in _CHOSEN if len({row.get(name) for row in rows}) == 1 and len(rows) > 1}
    names = [name for name in rows[0] if name not in same]
    for name in names:
        text = isinstance(rows[0][name], str)
        table.add_column(name, justify="left" if text else "right", overflow="fold")
    for row in rows:
        table.add_row(*(_shown(row[name]) for name in names))
    return table


def _shown(value):
    if value is None:
        return "no DRAM"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
