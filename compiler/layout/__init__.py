"""The DRAM image: matrices as panels, the order of their words, records and tables as bytes."""
