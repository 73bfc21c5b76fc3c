"""Simulation of the whole accelerator: builds, memory model, ways to the accelerator, runs and their reports."""
