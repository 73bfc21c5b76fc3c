"""From a quantised layer to a program: panels, DRAM image, scratchpad plan, commands, and their checks."""
