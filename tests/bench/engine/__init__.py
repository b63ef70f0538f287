"""The decision cycle and what comes in before it, in one process."""
