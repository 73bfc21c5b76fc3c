"""The interpreter on the scratchpad of a unit's bench: what RTL is compared with beside the plain models."""

import numpy as np

from bertha.compiler.interpret import Interpreter
from bertha.rtl.isa import COMMANDS

__all__ = ["Interpreted"]


class Interpreted:
    """An `Interpreter` whose scratchpad is filled from lines, and compared with lines."""

    def __init__(self, config):
        self.config = config
        self.machine = Interpreter(config, window=(0, 0))

    def put(self, addr, lines):
        """Fills the scratchpad from line `addr` on; lines are integers."""
        for number, line in enumerate(lines, addr):
            content = line.to_bytes(self.config.line_bytes, "little")
            self.machine.scratchpad[number] = np.frombuffer(content, np.uint8)

    def line(self, addr):
        """A line as an integer."""
        return int.from_bytes(self.machine.scratchpad[addr].tobytes(), "little")

    def execute(self, opcode, **fields):
        """Executes all tiles of a command; fields that aren't named are zero."""
        full = {field.name: 0 for field in COMMANDS[opcode]} | fields
        for tile in range(full.get("count", 1)):
            self.machine.execute(opcode, full, tile)

    def differences(self, lines):
        """Addresses of `lines` (address to integer) that differ."""
        return [addr for addr, line in lines.items() if self.line(addr) != line]
