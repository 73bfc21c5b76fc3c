"""Resource and timing reports for FPGAs: the accelerator behind a register harness, placed and routed."""
