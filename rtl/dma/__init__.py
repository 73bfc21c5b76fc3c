"""Load and store engines: DRAM over AXI4 to and from the scratchpad."""
