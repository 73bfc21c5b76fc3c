"""The registers that software sees, over AXI4-Lite."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.axi import Response, axi4_lite_signature
from bertha.rtl.registers import ADDRESS_BITS, IDENTITY, VERSION, Access, registers_of
from bertha.rtl.selection import one_hot_select

__all__ = ["RegisterFile"]


class RegisterFile(wiring.Component):
    """`bertha.rtl.registers.registers_of(config)` behind an AXI4-Lite subordinate; one read and one write at a time.

    Write strobes are honoured byte by byte. Offsets without a register read zero and ignore writes,
    both with OKAY, as do writes to read-only registers. The low two address bits are ignored. Reading a
    register that counts in two halves, NAME and NAME_high, keeps the high half for the next read of that.

    Ports
    -----
    s_axil : In(axi4_lite_signature)
    NAME : In(32)
        For each read-only register that isn't a constant of the configuration.
    NAME : Out(32)
        For each read/write register: its value. For each write-one register: the ones written, for
        one cycle.
    NAME_state : In(32)
        What a write-one register reads.

    Parameters
    ----------
    config : Config
    """

    def __init__(self, config):
        self._constants = {
            "identity": IDENTITY,
            "version": VERSION,
            "array_n": config.array_n,
            "scratchpad_bytes": config.scratchpad_bytes,
            "axi": config.axi_data_bits << 16 | config.axi_addr_bits,
            "limits": config.row_slots << 16 | config.semaphores << 8 | config.queue_depth,
            "cycle_counters": config.cycle_counters,
        }
        self._registers = registers_of(config)
        ports = {"s_axil": In(axi4_lite_signature(addr_bits=ADDRESS_BITS))}
        for register in self._registers:
            if register.access is Access.READ:
                if register.name not in self._constants:
                    ports[register.name] = In(32)
                continue
            ports[register.name] = Out(32)
            if register.access is Access.WRITE_ONE:
                ports[f"{register.name}_state"] = In(32)
        super().__init__(ports)

    def elaborate(self, platform) -> Module:
        m = Module()
        bus = self.s_axil

        # Address and data of a write may come in either order.
        has_addr, has_data = Signal(), Signal()
        write_word = Signal(ADDRESS_BITS - 2)
        data, strobes = Signal(32), Signal(4)
        do_write = Signal()
        m.d.comb += [
            bus.awready.eq(~has_addr),
            bus.wready.eq(~has_data),
            bus.bresp.eq(Response.OKAY),
            do_write.eq(has_addr & has_data & ~bus.bvalid),
        ]
        with m.If(do_write):
            m.d.sync += [has_addr.eq(0), has_data.eq(0), bus.bvalid.eq(1)]
        with m.Elif(bus.bready):
            m.d.sync += bus.bvalid.eq(0)
        with m.If(bus.awvalid & bus.awready):
            m.d.sync += [has_addr.eq(1), write_word.eq(bus.awaddr[2:])]
        with m.If(bus.wvalid & bus.wready):
            m.d.sync += [has_data.eq(1), data.eq(bus.wdata), strobes.eq(bus.wstrb)]

        # Which register is meant, and its value, take a cycle each.
        reading = Signal()
        chosen = Signal(len(self._registers))
        values = []
        m.d.comb += [bus.arready.eq(~reading & ~bus.rvalid), bus.rresp.eq(Response.OKAY)]
        with m.If(bus.arvalid & bus.arready):
            m.d.sync += reading.eq(1)
        with m.If(reading):
            m.d.sync += [reading.eq(0), bus.rvalid.eq(1)]
        with m.Elif(bus.rready):
            m.d.sync += bus.rvalid.eq(0)

        mask = Cat(strobe.replicate(8) for strobe in strobes)
        names = {register.name: number for number, register in enumerate(self._registers)}
        for number, register in enumerate(self._registers):
            written = do_write & (write_word == register.offset >> 2)
            if register.access is Access.READ_WRITE:
                value = getattr(self, register.name)
                with m.If(written):
                    m.d.sync += value.eq((value & ~mask) | (data & mask))
            elif register.access is Access.WRITE_ONE:
                value = getattr(self, f"{register.name}_state")
                m.d.sync += getattr(self, register.name).eq(Mux(written, data & mask, 0))
            elif register.name in self._constants:
                value = self._constants[register.name]
            elif register.name.endswith("_high"):
                value = Signal(32, name=f"kept_{register.name}", reset_less=True)
                with m.If(reading & chosen[names[register.name.removesuffix("_high")]]):
                    m.d.sync += value.eq(getattr(self, register.name))
            else:
                value = getattr(self, register.name)
            m.d.sync += chosen[number].eq(bus.araddr[2:] == register.offset >> 2)
            values.append(value)
        with m.If(reading):
            m.d.sync += bus.rdata.eq(one_hot_select(chosen, values))
        return m
