"""Registers, program fetch and dispatch, semaphores, faults."""
