"""The accelerator in Amaranth: configuration, instruction set and every hardware component."""
