"""python -m rtl: the accelerator's Verilog, and the generated part of docs/programming.md."""

import argparse
import sys
from pathlib import Path

from rich.console import Console

from rtl.config import PRESETS, preset

PROGRAMMING = Path(__file__).resolve().parent.parent / "docs" / "programming.md"


def main(arguments=None):
    """Runs the command line; the result is the exit code."""
    parser = argparse.ArgumentParser(prog="python -m rtl", description=__doc__)
    actions = parser.add_subparsers(dest="action", required=True)
    verilog = actions.add_parser("verilog", help="write bertha.v, manifest.json and bertha.h")
    verilog.add_argument("--preset", default="edge16", help=f"one of {', '.join(PRESETS)}")
    verilog.add_argument("--out", type=Path, help="folder, build/verilog/<preset> if not given")
    actions.add_parser("document", help="make the generated part of docs/programming.md anew")
    options = parser.parse_args(arguments)
    if options.action == "document":
        from rtl.document import refreshed

        PROGRAMMING.write_text(refreshed(PROGRAMMING.read_text()))
        return 0
    try:
        config = preset(options.preset)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    from rtl.generate import generate

    folder = options.out or Path("build", "verilog", options.preset)
    with Console(stderr=True).status(f"writing the Verilog of {options.preset}"):
        manifest = generate(config, folder)
    for name in (manifest["verilog"]["file"], "manifest.json", "bertha.h"):
        print(folder / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
