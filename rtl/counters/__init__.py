"""Where each engine's cycles go: counters of which every cycle of a program meets exactly one."""
