"""Fake providers with one broken rule each, and the checks of the conformance suite that must see it."""

from tests.integration.bigfleet.conformance.mutants import (
    concurrency,
    errors,
    fencing,
    fields,
    idempotency,
    lifecycle,
    lists,
    metadata,
)
from tests.integration.bigfleet.conformance.mutants.breaking import MUTANTS, Mutant

__all__ = [
    "MUTANTS",
    "Mutant",
    "concurrency",
    "errors",
    "fencing",
    "fields",
    "idempotency",
    "lifecycle",
    "lists",
    "metadata",
]
