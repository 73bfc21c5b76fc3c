"""The way from a host to an accelerator: registers, interrupt and memory."""

from typing import Any, Protocol

__all__ = ["Transport", "complete"]


class Transport(Protocol):
    """What the driver asks of a simulator, a serial link or a mapped bus.

    The methods are coroutines, because a simulator may have to go on for them to finish. Where they simply
    block, as on a serial link, they never suspend, and `complete` runs them.

    An access that fails or isn't answered raises `bertha.errors.DriverError`.
    """

    async def read(self, offset) -> int:
        """The 32 bits of the register at byte `offset`."""

    async def write(self, offset, value) -> None:
        """Writes 32 bits to the register at byte `offset`; returns when that has been answered."""

    async def wait_for_interrupt(self, cycles) -> bool:
        """Waits for the interrupt, at most about so many cycles of the accelerator; whether it is there."""

    async def read_memory(self, address, nbytes) -> bytes:
        """Bytes of the accelerator's memory."""

    async def write_memory(self, address, data) -> None:
        """Puts bytes into the accelerator's memory."""


def complete(coroutine) -> Any:
    """The result of a coroutine that never suspends, such as a driver's on a transport that blocks.

    Raises
    ------
    RuntimeError
        If it does suspend.
    """
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    coroutine.close()
    raise RuntimeError("complete must be given a coroutine that never suspends")
