"""The command `bertha`: one parser, one way to tell errors, one file a command in `bertha/commands`."""

import argparse
import contextlib
import importlib
import os
import re
import signal
import sys
import threading

from bertha.errors import DriverError, SimulationError, ToolError, UserError

__all__ = ["main"]

COMMANDS = {
    "sim": "run a model, or a layer of it, in RTL simulation and compare every byte",
    "compare": "show two runs, or predictions, side by side",
    "bench": "measure all figures that have a target: utilisation, robustness, predictions, speed",
    "speed": "measure the simulation's speed under cocotb against a bare C++ loop",
    "compile": "compile a model: keep it in a file, print the program or what it will cost",
    "run": "run a compiled model on texts: embeddings, hidden states or labels",
    "info": "show what is in a compiled model",
    "predict": "cycles of a model on any accelerator and memory, and what they go to, without simulating",
    "sweep": "the same over many accelerators, memories and models: table, plots, Pareto front",
    "characterise": "what bounds BERT here: breakdown, intensity, bandwidth, ablations, energy (an estimate)",
    "finetune": "fine-tune a checkpoint for a task",
    "specialise": "prune a fine-tuned model for its task, without training; or report on such models",
    "accuracy": "whole models beside PyTorch: embeddings by recipe, tasks, cost; or single layers and units",
    "verilog": "write the accelerator's Verilog, manifest and C header",
    "fpga": "resources and clock of the accelerator on an FPGA",
    "scalesim": "cycles of the layers' matrix products according to SCALE-Sim",
    "document": "make the generated part of docs/programming.md anew",
}
"""Name and one line of every command; `bertha.commands.<name>` has `add_arguments` and `run`."""


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        message = re.sub(r"^argument (\S+): must ", r"\1 must ", message)
        self.exit(2, f"error: {message} (see {self.prog} --help)\n")


class _CommandParser(_Parser):
    """Takes what isn't an option before, between and behind the options."""

    _mixed = False

    def parse_known_args(self, args=None, namespace=None):
        has_commands = any(action.nargs == argparse.PARSER for action in self._get_positional_actions())
        if self._mixed or has_commands:  # called by the one below; or that can't be mixed
            return super().parse_known_args(args, namespace)
        self._mixed = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._mixed = False


class _Ended(BaseException):
    """A signal asks this process to end: like an interrupt, it stops whatever runs."""


def _parser(chosen):
    parser = _Parser(prog="bertha", description="An open generator of BERT accelerators.")
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="command", parser_class=_CommandParser
    )
    for name, line in COMMANDS.items():
        command = commands.add_parser(name, help=line, description=line[0].upper() + line[1:] + ".")
        if name == chosen:  # the others' modules needn't be imported
            module = importlib.import_module(f"bertha.commands.{name}")
            module.add_arguments(command)
            command.set_defaults(run=module.run)
    return parser


def main(arguments=None) -> int:
    """Runs the command line.

    Returns
    -------
    int
        Exit code: 0 for success; 1 if something failed (a tool, a simulation, a comparison); 2 for bad
        input or a file that can't be used; 128 and the signal's number if it was told to end: 130 for an
        interrupt, 141 if nobody reads the output any more.
    """
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    chosen = next((argument for argument in arguments if not argument.startswith("-")), None)
    try:
        with _ended_by(signal.SIGTERM, signal.SIGHUP):
            try:
                options = _parser(chosen).parse_args(arguments)
            except SystemExit:  # help or an error has been printed
                _flush()
                raise
            code = options.run(options)
            _flush()
            return code
    except UserError as error:
        return _fail(2, str(error))
    except (ToolError, DriverError, SimulationError) as error:
        return _fail(1, str(error))
    except BrokenPipeError:
        _drop_output()
        return 128 + signal.SIGPIPE
    except OSError as error:
        if error.strerror is None:
            raise
        if error.filename is None:
            _drop_output()
        return _fail(2, f"{error.filename or 'the output'} can't be used: {error.strerror}")
    except KeyboardInterrupt:
        return _fail(128 + signal.SIGINT, "interrupted")
    except _Ended as end:
        return _fail(128 + end.args[0], "told to end")


def _flush():
    if sys.stdout:
        sys.stdout.flush()


def _drop_output():
    """What is still to be written to standard output goes nowhere, instead of failing once more at the end."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(code, sentence):
    print(f"error: {sentence}", file=sys.stderr)
    return code


@contextlib.contextmanager
def _ended_by(*signals):
    """Raises `_Ended` in this thread when one of the signals arrives."""

    def end(number, frame):
        raise _Ended(number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heeded = [number for number in signals if signal.getsignal(number) != signal.SIG_IGN]  # nohup ignores one
    before = {number: signal.signal(number, end) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
