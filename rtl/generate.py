"""Writes the accelerator alone: Verilog, a JSON manifest and a C header."""

import hashlib
import json
from pathlib import Path

from amaranth.hdl import Value
from amaranth.lib.wiring import In

from bertha.rtl import header
from bertha.rtl.top import Bertha
from bertha.rtl.verilog import convert

__all__ = ["generate", "ports_of"]

TOP = "bertha"


def ports_of(component) -> dict[str, tuple[Value, str]]:
    """Verilog ports of `component` by name: a dict of name to (signal, "input" or "output")."""
    ports = {}
    for path, member, value in component.signature.flatten(component):
        direction = "input" if member.flow == In else "output"
        ports["_".join(str(part) for part in path)] = (Value.cast(value), direction)
    return ports


def generate(config, folder) -> dict:
    """Writes `bertha.v`, `manifest.json` and `bertha.h` for `config` into `folder`.

    The manifest holds the parameters, the derived sizes, the ports (name, direction, width) and
    the Verilog's SHA-256.

    Returns
    -------
    dict
        The manifest.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    top = Bertha(config)
    ports = ports_of(top)
    text = convert(top, name=TOP, ports={name: (signal, None) for name, (signal, _) in ports.items()})
    manifest = {
        "top": TOP,
        "parameters": config.as_dict(),
        "sizes": {
            name: getattr(config, name)
            for name, member in vars(type(config)).items()
            if isinstance(member, property)
        },
        "clock": "clk",
        "reset": {"port": "rst", "active": "high", "synchronous": True},
        "ports": [
            {"name": name, "direction": direction, "width": len(signal)}
            for name, (signal, direction) in ports.items()
        ],
        "verilog": {"file": f"{TOP}.v", "sha256": hashlib.sha256(text.encode()).hexdigest()},
    }
    (folder / f"{TOP}.v").write_text(text)
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")
    (folder / f"{TOP}.h").write_text(header.text(config))
    return manifest
