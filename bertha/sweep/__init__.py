"""Many predictions, or RTL runs, over grids of accelerators, memories and models."""
