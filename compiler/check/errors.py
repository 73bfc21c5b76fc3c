"""How a broken rule of a program is told."""

__all__ = ["ProgramError", "place"]


class ProgramError(ValueError):
    """A program breaks a rule; the message is one sentence that names the command, the rule and the value."""


def place(number, command) -> str:
    """How messages name a command."""
    return f"command {number} ({command.name}, {command.opcode.name})"
