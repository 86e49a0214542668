"""The commands, one file each: ABOUT, EXAMPLE, `arguments(parser)`, and `run(options)`, which returns the exit code.

Results go to standard output, progress and complaints to standard error. Whatever a model or a database wrote passes `terminal.shown`.
"""
