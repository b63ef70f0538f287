"""What the provider's ledger writes down of a rule that was broken: which machine, and what else it knows."""

from collections.abc import Iterable, Mapping
from typing import Any

from scaletest.judge.gates.suspects import REFUSED

# Strangers are refused on purpose.
_NOT_REFUSED = ("OK", "PERMISSION_DENIED", "UNAUTHENTICATED")
# Told in the sentence itself, or of no use in it.
_NOT_DETAILS = ("time", "event", "rule", "machine", "cluster", "shard", "epoch", "sequence")


def first_offences(entries: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """By rule: the first machine that it was broken for, in words."""
    found: dict[str, str] = {}
    for entry in entries:
        if entry.get("event") == "violation":
            found.setdefault(str(entry.get("rule")), _words(entry))
        elif "call" in entry and entry.get("answer") not in _NOT_REFUSED:
            found.setdefault(REFUSED, _words(entry))
    return found


def offence_of(rules: str, offences: Mapping[str, str]) -> str:
    """Of several rules (`a|b`), the first one that was broken; empty if the ledger names none."""
    return next((f"for example {offences[rule]}" for rule in rules.split("|") if rule in offences), "")


def _words(entry: Mapping[str, Any]) -> str:
    words = f"machine {entry.get('machine')}"
    if cluster := entry.get("cluster"):
        words += f" of {cluster}"
    if shard := entry.get("shard"):
        words += f", commanded by {shard}"
    details = {name: value for name, value in entry.items() if name not in _NOT_DETAILS and value}
    return words + "".join(f", {name} {_listed(value)}" for name, value in details.items())


def _listed(value: Any) -> str:
    return " and ".join(map(str, value)) if isinstance(value, list) else str(value)
