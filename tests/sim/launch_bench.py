"""Benches that end in every way that one can (run by test_launch.py)."""

import os
import signal

import cocotb
from cocotb.triggers import RisingEdge

HOW = os.environ["HOW"]


@cocotb.test()
async def passes(dut):
    """Always passes."""
    await RisingEdge(dut.clk)


@cocotb.test(skip=HOW == "skips")
async def may_be_skipped(dut):
    """Passes if it isn't skipped."""
    await RisingEdge(dut.clk)


@cocotb.test()
async def ends(dut):
    """Ends as HOW says."""
    await RisingEdge(dut.clk)
    if HOW == "fails":
        raise AssertionError("on purpose")
    if HOW == "crashes":
        os.kill(os.getpid(), signal.SIGSEGV)
    if HOW == "hangs":
        while True:
            await RisingEdge(dut.clk)
    if HOW == "background":
        cocotb.start_soon(fail_later(dut))
        for _ in range(10):
            await RisingEdge(dut.clk)


async def fail_later(dut):
    """A task beside the test that fails."""
    await RisingEdge(dut.clk)
    raise AssertionError("on purpose")
