"""The command `bertha`: one parser, one way to tell errors, one file a command in `bertha/commands`."""

import argparse
import importlib
import sys

from bertha.errors import DriverError, SimulationError, ToolError, UserError

__all__ = ["main"]

COMMANDS = {
    "sim": "run an encoder layer in RTL simulation and compare every byte",
    "bench": "measure the simulation's speed under cocotb against a bare C++ loop",
    "compile": "compile a layer, check the program, and print it or what it will cost",
    "accuracy": "errors of each unit, and accuracy of layers against PyTorch",
    "verilog": "write the accelerator's Verilog, manifest and C header",
    "fpga": "resources and clock of the accelerator on an FPGA",
    "document": "make the generated part of docs/programming.md anew",
}
"""Name and one line of every command; `bertha.commands.<name>` has `add_arguments` and `run`."""


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(2, f"error: {message} (see {self.prog} --help)\n")


def _parser(chosen):
    parser = _Parser(prog="bertha", description="An open generator of BERT accelerators.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command", parser_class=_Parser)
    for name, line in COMMANDS.items():
        command = commands.add_parser(name, help=line, description=line[0].upper() + line[1:] + ".")
        if name == chosen:  # the others' modules needn't be imported
            module = importlib.import_module(f"bertha.commands.{name}")
            module.add_arguments(command)
            command.set_defaults(run=module.run)
    return parser


def main(arguments=None):
    """Runs the command line.

    Returns
    -------
    int
        Exit code: 0 for success; 1 if something failed (a tool, a simulation, a comparison); 2 for bad
        input; 130 if interrupted.
    """
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    chosen = next((argument for argument in arguments if not argument.startswith("-")), None)
    options = _parser(chosen).parse_args(arguments)
    try:
        return options.run(options)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except (ToolError, DriverError, SimulationError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
