"""Two runs, or two predictions, side by side: `bertha compare`."""
