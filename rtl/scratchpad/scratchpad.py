"""Banks behind a crossbar.

Consecutive lines lie in consecutive banks, so a stream that reads or writes one line a cycle
visits the banks in turn. Two such streams that meet in a bank are apart from then on, because the
one that had to wait follows one bank behind: no placement by the compiler is needed, and no
stream of lower priority can be held off for longer than the others take to pass.
"""

from amaranth.hdl import Array, Cat, Const, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In

from bertha.rtl.scratchpad.bank import Bank
from bertha.rtl.selection import one_hot_select
from bertha.rtl.signatures import bank_write, read_port

__all__ = ["Scratchpad"]

READERS = 7
"""The accelerator's: GEMM's A, B, residuals and column records, the vector engine's source and records, stores."""
WRITERS = 3
"""The accelerator's: loads, GEMM, vector engine."""


class Scratchpad(wiring.Component):
    """Single-port banks, `readers` read ports and `writers` write ports.

    Ports
    -----
    read : In(read_port) x readers
        See `bertha.rtl.signatures.read_port`. Lines follow `latency` cycles after their request.
    write : In(stream of bank_write) x writers
        A write is seen by every read that is taken in a later cycle.

    In every bank and cycle one access wins: the read port with the lowest number, then the write
    port with the lowest number. From its grant on an access goes through registers: port, bank,
    the bank's memory, its output, the port's line.

    Parameters
    ----------
    config : Config
    readers, writers : int
    """

    latency = Bank.latency + 4

    def __init__(self, config, *, readers=READERS, writers=WRITERS):
        self._config = config
        super().__init__(
            {
                "read": In(read_port(config)).array(readers),
                "write": In(stream.Signature(bank_write(config))).array(writers),
            }
        )
        self._readers = readers
        self._writers = writers

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self._config
        bank_bits = config.bank_bits
        ports = [(port.request.valid, port.request.payload, port.request.ready) for port in self.read]
        ports += [(port.valid, port.payload.addr, port.ready) for port in self.write]

        # A port is held off by those before it that want the same bank. Comparing them in pairs is
        # quicker than asking every bank.
        granted = Signal(len(ports))
        for number, (valid, addr, ready) in enumerate(ports):
            held_off = Const(0, 1)
            for other_valid, other_addr, _ in ports[:number]:
                held_off |= other_valid & (other_addr[:bank_bits] == addr[:bank_bits])
            m.d.comb += [ready.eq(~held_off), granted[number].eq(valid & ready)]

        # Grants, addresses and lines are registered before they meet at the banks: the grant of a
        # port far away and the way to a bank far away are a cycle each. All accesses take the same
        # time, so they stay in order. Registers that the grants qualify need no reset.
        addrs, lines = [], []
        for number, (_, addr, _) in enumerate(ports):
            bank_addr = Signal(range(config.bank_lines), name=f"port_addr_{number}", reset_less=True)
            m.d.sync += bank_addr.eq(addr[bank_bits:])
            addrs.append(bank_addr)
        for number, port in enumerate(self.write):
            line = Signal(config.line_bits, name=f"port_line_{number}", reset_less=True)
            m.d.sync += line.eq(port.payload.data)
            lines.append(line)

        read_data = []
        for number in range(config.scratchpad_banks):
            grants = Signal(len(ports), name=f"grants_{number}")  # at most one of them
            m.d.sync += grants.eq(granted & Cat(addr[:bank_bits] == number for _, addr, _ in ports))
            write_grants = grants[self._readers :]

            m.submodules[f"bank_{number}"] = bank = Bank(config.bank_lines, config.line_bits)
            enable, write = Signal(name=f"enable_{number}"), Signal(name=f"write_{number}")
            addr = Signal(range(config.bank_lines), name=f"addr_{number}", reset_less=True)
            data = Signal(config.line_bits, name=f"data_{number}", reset_less=True)
            m.d.sync += [
                enable.eq(grants.any()),
                write.eq(write_grants.any()),
                addr.eq(one_hot_select(grants, addrs)),
                data.eq(one_hot_select(write_grants, lines)),
            ]
            m.d.comb += [
                bank.enable.eq(enable),
                bank.write.eq(write),
                bank.addr.eq(addr),
                bank.write_data.eq(data),
            ]
            # A block RAM takes a third of a cycle to its output, and banks lie far apart.
            line = Signal(config.line_bits, name=f"line_{number}", reset_less=True)
            m.d.sync += line.eq(bank.read_data)
            read_data.append(line)

        for number, port in enumerate(self.read):
            bank = port.request.payload[:bank_bits]
            taken = granted[number]
            for _ in range(self.latency - 1):
                next_bank, next_taken = Signal(bank_bits, reset_less=True), Signal()
                m.d.sync += [next_bank.eq(bank), next_taken.eq(taken)]
                bank, taken = next_bank, next_taken
            data = Signal(config.line_bits, name=f"read_data_{number}", reset_less=True)
            m.d.sync += port.data_valid.eq(taken)
            m.d.comb += port.data.eq(data)
            with m.If(taken):
                m.d.sync += data.eq(Array(read_data)[bank])
        return m
