"""The `scaletest-runner` command. Thin: it reads arguments, calls the layers below, prints, and exits.

One module per group of commands. Everything heavy is imported where it is used, so that `--help` answers at once.
"""
