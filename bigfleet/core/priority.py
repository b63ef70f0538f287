"""Priorities by class, as metrics show them."""

# Least priority of a class, the highest first.
PRIORITY_CLASSES = ((1_000_000, "critical"), (1_000, "service"), (100, "batch"))
OTHER = "other"


def priority_class(priority: int) -> str:
    return next((label for least, label in PRIORITY_CLASSES if priority >= least), OTHER)
