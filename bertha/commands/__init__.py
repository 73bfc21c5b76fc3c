"""One module a command of `bertha`: `add_arguments(parser)` and `run(options)`, which returns the exit code."""
