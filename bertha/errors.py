"""Errors that a user can do something about."""

__all__ = ["AcceleratorFault", "DriverError", "SimulationError", "ToolError", "UserError"]


class UserError(ValueError):
    """Bad input: one sentence that names the thing, the rule and the value. No traceback is shown."""


class ToolError(Exception):
    """A tool is missing or failed; the sentence names it and the file with its output."""


class SimulationError(Exception):
    """A simulation didn't do what it must: no interrupt in time, a broken protocol, a lost result."""


class DriverError(Exception):
    """An accelerator, or the way to it, didn't do what it must: the wrong identity, no interrupt in time."""


class AcceleratorFault(DriverError):
    """The accelerator stopped a program.

    Attributes
    ----------
    reason : FaultReason
    index : int
        Position in the program of the command at fault.
    engine : Engine
    """

    def __init__(self, reason, index, engine):
        self.reason = reason
        self.index = index
        self.engine = engine
        super().__init__(
            f"the accelerator stopped with {reason.name} at command {index} ({engine.name} engine)"
        )
