"""The figures that the project is held to, each a small benchmark: `bertha bench`."""
