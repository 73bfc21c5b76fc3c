"""Banked scratchpad memory, and the readers and writers that stream lines from and to it."""
