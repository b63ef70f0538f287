"""Stores docs/gates.md: the gates, and which mistakes of the catalogue each of them has to notice."""

from scaletest.report.gates_page import store
from tests.smoke.mistakes import CATALOGUE


def catches() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for entry in CATALOGUE:
        for key in sorted(entry.gates):
            found.setdefault(key, []).append(entry.name)
    return found


if __name__ == "__main__":
    store(catches())
