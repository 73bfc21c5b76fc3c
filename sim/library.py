"""The simulated system as a library in this process, without cocotb: fast, and as a host program sees it."""

import ctypes

from bertha.errors import DriverError
from bertha.rtl.registers import REGISTERS
from bertha.sim.memory import Memory, Trace

__all__ = ["LibraryTransport"]

_NAMES = {register.offset: register.name for register in REGISTERS}


def _load(path):
    library = ctypes.CDLL(str(path))
    simulation, u32, u64, integer = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int
    for name, result, *arguments in (
        ("create", simulation, u32),
        ("destroy", None, simulation),
        ("reset", None, simulation, u32),
        ("run", u64, simulation, u64, integer),
        ("write", integer, simulation, u32, u32),
        ("read", integer, simulation, u32, ctypes.POINTER(u32)),
        ("interrupt", integer, simulation),
        ("cycles", u64, simulation),
    ):
        function = getattr(library, f"simulation_{name}")
        function.restype, function.argtypes = result, arguments
    return library


class LibraryTransport:
    """A `bertha.runtime.transport.Transport` to a simulation in this process; its coroutines never suspend.

    There is one simulation, memory and trace in a loaded library, so one transport at a time.

    Attributes
    ----------
    memory : Memory or None
        The accelerator's memory, once `allocate` has made it.
    trace : Trace

    Parameters
    ----------
    simulation : bertha.sim.build.Simulation
        With a library.
    seed : int
        Of what registers and memories hold before they are set.
    """

    def __init__(self, simulation, *, seed=0):
        self._library = _load(simulation.library)
        self._simulation = self._library.simulation_create(seed)
        self.memory = None
        self.trace = Trace(library=self._library)

    def close(self) -> None:
        """Ends the simulation."""
        self._library.simulation_destroy(self._simulation)

    def allocate(self, base, size) -> Memory:
        """Makes `size` bytes of memory from address `base` on, in place of what was there; the `Memory`."""
        self.memory = Memory(base, size, library=self._library)
        return self.memory

    def reset(self, cycles=4) -> None:
        """Holds the reset for some cycles."""
        self._library.simulation_reset(self._simulation, cycles)

    def run(self, cycles) -> None:
        """Lets so many cycles pass."""
        self._library.simulation_run(self._simulation, cycles, False)

    @property
    def cycle(self) -> int:
        """Clock cycles so far."""
        return self._library.simulation_cycles(self._simulation)

    @property
    def interrupt(self) -> bool:
        """Whether the interrupt is raised."""
        return bool(self._library.simulation_interrupt(self._simulation))

    async def read(self, offset) -> int:
        value = ctypes.c_uint32()
        response = self._library.simulation_read(self._simulation, offset, ctypes.byref(value))
        _check("reading", offset, response)
        return value.value

    async def write(self, offset, value) -> None:
        _check("writing", offset, self._library.simulation_write(self._simulation, offset, value))

    async def wait_for_interrupt(self, cycles) -> bool:
        self._library.simulation_run(self._simulation, cycles, True)
        return self.interrupt

    async def read_memory(self, address, nbytes) -> bytes:
        return self.memory.view(address, nbytes).tobytes()

    async def write_memory(self, address, data) -> None:
        self.memory.write(address, data)


def _check(what, offset, response):
    if response:
        answer = "got no answer" if response < 0 else f"was answered {response}"
        raise DriverError(
            f"{what} register {_NAMES.get(offset, hex(offset))} must be answered OKAY, but {answer}"
        )
