"""Writes the accelerator's Verilog, manifest and C header."""

from pathlib import Path

from rich.console import Console

from bertha.folders import BUILD
from bertha.rtl.config import PRESETS, preset


def add_arguments(parser) -> None:
    parser.add_argument("--preset", default="edge16", help=f"one of {', '.join(PRESETS)} (default: edge16)")
    parser.add_argument("--out", type=Path, help="folder (default: verilog/<preset> below the build folder)")


def run(options) -> int:
    config = preset(options.preset)
    from bertha.rtl.generate import generate  # all of the hardware: seconds

    folder = options.out or BUILD / "verilog" / options.preset
    with Console(stderr=True).status(f"writing the Verilog of {options.preset}"):
        manifest = generate(config, folder)
    for name in (manifest["verilog"]["file"], "manifest.json", "bertha.h"):
        print(folder / name)
    return 0
