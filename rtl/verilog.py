"""Writes a component as Verilog."""

from amaranth._toolchain.yosys import find_yosys
from amaranth.back import rtlil

__all__ = ["convert"]

_OLDEST_YOSYS = (0, 40)  # that Amaranth writes RTLIL for


def _without_memory_init(text):
    """RTLIL without the initial contents of memories.

    Every memory of the accelerator is written before it is read; leaving the initial contents out
    lets a bank be a plain SRAM, and keeps a 1 MiB scratchpad from becoming 3 MB of Verilog.
    """
    kept, dropping = [], False
    for line in text.splitlines(keepends=True):
        if line.lstrip().startswith("cell $meminit_v2"):
            dropping = True
            while kept and kept[-1].lstrip().startswith("attribute"):
                kept.pop()
        if not dropping:
            kept.append(line)
        elif line.strip() == "end":
            dropping = False
    return "".join(kept)


def convert(component, *, name, ports=None) -> str:
    """Verilog of `component` as a string, its top module called `name`.

    Parameters
    ----------
    component : Elaboratable
    name : str
    ports : dict of str to (Signal, PortDirection), optional
        Ports by name. Without it, the members of the component's signature under Amaranth's names.
    """
    text = _without_memory_init(rtlil.convert(component, name=name, ports=ports, emit_src=False))
    # Amaranth's own conversion has no step between RTLIL and Verilog, and leaves an `always @*` in front of every
    # register, reset included. As multiplexers Verilator moves that logic into the registers' assignments; else it is
    # combinational logic behind the input `rst`, which is evaluated at every call.
    script = [
        f"read_rtlil <<rtlil\n{text}\nrtlil",
        "proc -norom",
        "memory_collect",
        "write_verilog -norename",
    ]
    yosys = find_yosys(lambda version: version >= _OLDEST_YOSYS)
    return yosys.run(["-q", "-"], "\n".join(script), ignore_warnings=True)
