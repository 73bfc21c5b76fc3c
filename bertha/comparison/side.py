"""Reads what is compared: a run's report.json, or what `bertha predict --json` printed, in one form."""

import json
from dataclasses import dataclass
from pathlib import Path

from bertha.compiler.operations import general_name
from bertha.errors import UserError

__all__ = ["Kind", "Layer", "Side", "read_pair", "read_side"]

_RUN_KEYS = ("preset", "array_n", "cycles", "macs", "utilization", "ops", "sequences", "engine_busy")
_PREDICTION_KEYS = ("config", "tokens", "cycles", "macs", "utilization", "kinds", "layers", "activity")


@dataclass(frozen=True)
class Kind:
    """What one engine did for one kind of operation, or for one operation of a layer alone."""

    cycles: int
    macs: int
    dram_bytes: int


@dataclass(frozen=True)
class Layer:
    """What a layer took."""

    cycles: int
    utilization: float


@dataclass(frozen=True, kw_only=True)
class Side:
    """One of the two.

    Attributes
    ----------
    file : Path
    what : str
        "a whole model's run", "a layer's run" or "a prediction".
    facts : dict of str to str
        What ran, on what.
    figures : dict of str to (float, str)
        By name, each with its unit: "", "%" of a share, "dB", "cycles/s", "bytes".
    kinds : dict of (str, str) to Kind
        By kind of operation and engine.
    layers : dict of str to Layer
    engines : dict of str to dict
        Cycles by engine and class.
    """

    file: Path
    what: str
    facts: dict
    figures: dict
    kinds: dict
    layers: dict
    engines: dict


def read_pair(first, second) -> tuple[Side, Side]:
    """Both sides.

    Raises
    ------
    UserError
        As `read_side`, or if the two are of different kinds.
    """
    sides = read_side(first), read_side(second)
    if sides[0].what != sides[1].what:
        raise UserError(
            f"both must be of one kind, but {sides[0].file} is {sides[0].what} and {sides[1].file} {sides[1].what}"
        )
    return sides


def read_side(path) -> Side:
    """A run's folder, its report.json, or a prediction's JSON.

    Raises
    ------
    UserError
        If there is no such file, or it is damaged or something else.
    """
    file = Path(path)
    if file.is_dir():
        file = file / "report.json"
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"{file} must be a report of `bertha sim`, but there is no such file") from None
    except UnicodeDecodeError:
        raise UserError(f"{file} must be a report of `bertha sim`, but is no text") from None
    try:
        content = json.loads(text)
    except ValueError as error:
        raise UserError(f"{file} must be JSON, but is damaged: {error}") from None
    kind = _kind_of(content)
    if kind is None:
        raise UserError(
            f"{file} must be a report of `bertha sim` or of `bertha predict --json`, but is neither"
        )
    try:
        return (_prediction if kind == "a prediction" else _run)(file, kind, content)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, ZeroDivisionError) as error:
        raise UserError(f"{file} must be a whole report, but {_missing(error)}") from None


def _missing(error):
    return f"has no {error.args[0]!r}" if isinstance(error, KeyError) else f"a value is wrong: {error}"


def _kind_of(content):
    if not isinstance(content, dict):
        return None
    if all(key in content for key in _RUN_KEYS):
        return "a layer's run" if content.get("recipe") is None else "a whole model's run"
    return "a prediction" if all(key in content for key in _PREDICTION_KEYS) else None


def _run(file, what, run):
    single = what == "a layer's run"
    facts = {
        "model": run["model"] + (f", layer {run['layers'][0]}" if single else ""),
        "recipe": run.get("recipe") or "",
        "preset": f"{run['preset']}, {run['array_n']} x {run['array_n']}",
        "tokens": f"{run['tokens']:,} real, {run['padding']:,} padding, at most {run['seq']:,} a run",
        "packing": run.get("packing") or "",
        "memory": f"{run['memory_latency']} cycles, {run['memory_bandwidth']:g} bytes a cycle",
        "integer model": "equal" if run["bit_exact"] else "DIFFERENT",
    }
    figures = {
        "cycles": (run["cycles"], ""),
        "MACs": (run["macs"], ""),
        "utilisation": (run["utilization"], "%"),
        "utilisation with padding": (run["padded_utilization"], "%"),
        "DRAM bytes read": (run["dram_bytes_read"], ""),
        "DRAM bytes written": (run["dram_bytes_written"], ""),
        **{f"{name} busy": (busy / run["cycles"], "%") for name, busy in run["engine_busy"].items()},
        "cosine, mean": (run["cosine_mean"], "cosine"),
        "cosine, worst token": (run["cosine_min"], "cosine"),
        "embedding cosine, mean": (run.get("embedding_cosine_mean"), "cosine"),
        "embedding cosine, worst": (run.get("embedding_cosine_min"), "cosine"),
        "SNR, dB": (run["snr_db"], "dB"),
        "largest error": (run["max_error"], "error"),
        "simulation, cycles/s": (run["sim_cycles_per_second"], "speed"),
    }
    kinds = _operations(run["ops"]) if single else _kinds(run["kinds"], "busy_cycles")
    layers = [] if single else [run["embedding"], *run["layers"]]
    return Side(
        file=file,
        what=what,
        facts=facts,
        figures={name: figure for name, figure in figures.items() if figure[0] is not None},
        kinds=kinds,
        layers=_layers(layer for layer in layers if layer),
        engines=_engines(run.get("engines")),
    )


def _prediction(file, what, found):
    config = found["config"]
    facts = {
        "hardware": f"{config['array_n']} x {config['array_n']}, scratchpad {config['scratchpad_bytes']:,} bytes, "
        f"bus {config['axi_data_bits']} bits",
        "tokens": f"{found['tokens']:,}",
    }
    figures = {
        "cycles": (found["cycles"], ""),
        "MACs": (found["macs"], ""),
        "utilisation": (found["utilization"], "%"),
        "DRAM bytes read": (found["bytes_read"], ""),
        "DRAM bytes written": (found["bytes_written"], ""),
        **{f"{name} busy": (busy / found["cycles"], "%") for name, busy in found["busy"].items()},
    }
    return Side(
        file=file,
        what=what,
        facts=facts,
        figures=figures,
        kinds=_kinds(found["kinds"], "busy"),
        layers=_layers(found["layers"]),
        engines=_engines(found["activity"]),
    )


def _kinds(rows, busy):
    return {(row["name"], row["engine"]): Kind(row[busy], row["macs"], row["dram_bytes"]) for row in rows}


def _operations(rows):
    """Of a layer alone: its operations, without the numbers of heads and panels."""
    found = {}
    for row in rows:
        key = general_name(row["name"]), row["engine"]
        old = found.get(key, Kind(0, 0, 0))
        found[key] = Kind(
            old.cycles + row["busy_cycles"], old.macs + row["macs"], old.dram_bytes + row["dram_bytes"]
        )
    return found


def _layers(rows):
    return {row["name"]: Layer(row["cycles"], row["utilization"]) for row in rows}


def _engines(found):
    return {engine: dict(classes) for engine, classes in (found or {}).items()}
