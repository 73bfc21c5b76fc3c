"""The cycle model: the accelerator's timing, cycle by cycle and without its data, in C++."""
