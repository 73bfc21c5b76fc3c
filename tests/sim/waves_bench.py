"""A bench with signals that are known (run by test_waves.py)."""

import cocotb
from cocotb.triggers import RisingEdge


@cocotb.test()
async def counts(dut):
    """m_axi_araddr counts the clock edges; a long stretch makes several blocks of the file."""
    dut.rst.value = 1
    for count in range(3000):
        dut.m_axi_araddr.value = count * 0x01010101 & 0xFFFF_FFFF
        await RisingEdge(dut.clk)
