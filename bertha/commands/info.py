"""Shows what is in a compiled model."""

import json
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bertha.commands.sim import table_console
from bertha.runtime.artifact import FORMAT, load_artifact
from bertha.runtime.description import describe_artifact


def add_arguments(parser) -> None:
    parser.add_argument("artifact", type=Path, help="file that bertha compile wrote")
    parser.add_argument("--json", action="store_true", help="print it as JSON")


def run(options) -> int:
    found = describe_artifact(load_artifact(options.artifact))
    if options.json:
        print(json.dumps(found, indent=1, ensure_ascii=False))
        return 0
    console = table_console()
    _print_facts(console, found)
    _print_memory(console, found["memory"])
    _print_members(console, found["members"])
    return 0


def _print_facts(console: Console, found):
    model, program = found["model"], found["program"]
    table = Table(show_header=False, box=None)
    heads = "/".join(str(layer["heads"]) for layer in _distinct(model["layers"]))
    ffn = "/".join(str(layer["ffn"]) for layer in _distinct(model["layers"]))
    rows = {
        "model": f"{model['name']} ({model['family']}), {len(model['layers'])} layers, hidden {model['hidden']}, "
        f"{heads} heads, FFN {ffn}",
        "weights": f"sha256 {model['digest'][:16]}..., {'trained' if model['trained'] else 'random'}",
        "recipe": found["recipe"],
        "embedding": f"{model['dimension']} values; pooling {'+'.join(model['pooling'])}"
        f"{', normalised' if model['normalize'] else ''}; texts are cut to {model['longest']} tokens",
        "labels": ", ".join(model["labels"]) if model["labels"] else "none",
        "hardware": f"{found['preset'] or 'no preset'}, {program['config']['array_n']} x "
        f"{program['config']['array_n']}, scratchpad {program['config']['scratchpad_bytes']:,} bytes",
        "program": f"{program['tokens']} tokens, {program['commands']:,} commands, {program['macs']:,} MACs",
        "weights in DRAM": f"{program['image_bytes']:,} bytes with parameters and tables",
        "predicted": f"{program['predicted_cycles']:,} cycles a run",
        "plan": ", ".join(f"{name} {value}" for name, value in found["plan"]["choice"].items()),
        "versions": ", ".join(f"{name} {version}" for name, version in found["versions"].items()),
        "file": f"format {FORMAT}; every member has its checksum",
    }
    for name, value in rows.items():
        table.add_row(name, value)
    console.print(table, highlight=False, markup=False)


def _distinct(layers):
    """Layers of different shapes."""
    shapes = []
    for layer in layers:
        if layer not in shapes:
            shapes.append(layer)
    return shapes


def _print_memory(console, regions):
    table = Table(title="Memory map")
    for column in ("first byte", "bytes", "what"):
        table.add_column(column, justify="left" if column == "what" else "right")
    for region in regions:
        table.add_row(f"{region['address']:#x}", f"{region['bytes']:,}", region["what"])
    console.print(table, highlight=False)


def _print_members(console, members):
    table = Table(title="Members")
    for column in ("name", "bytes", "sha256"):
        table.add_column(column, justify="right" if column == "bytes" else "left")
    for name, member in members.items():
        table.add_row(name, f"{member['bytes']:,}", f"{member['sha256'][:16]}...")
    console.print(table, highlight=False)
