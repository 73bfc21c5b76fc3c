"""Writes a component as Verilog."""

from amaranth.back import rtlil, verilog

__all__ = ["convert"]


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
    text = rtlil.convert(component, name=name, ports=ports, emit_src=False)
    # Amaranth's public `verilog.convert` has no step between RTLIL and Verilog.
    return verilog._convert_rtlil_text(_without_memory_init(text))
