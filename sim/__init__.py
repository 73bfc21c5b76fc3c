"""Simulation of the whole accelerator: builds, memory model, host driver, runs and their reports."""
