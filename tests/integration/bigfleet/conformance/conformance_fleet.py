"""A fleet for the conformance suite to work with, and limits for a provider that takes milliseconds."""

from typing import Any

from bigfleet.provider.conformance.bench import Limits
from tests.integration.players.provider_client import FLEET as PLAIN

FLEET: dict[str, Any] = {
    "kinds": PLAIN["kinds"]
    | {"spot": PLAIN["kinds"]["small"] | {"capacityType": "Spot", "interruptionProbability": 0.3}},
    "machines": [
        {"idPrefix": "spec", "kind": "small", "count": 4, "state": "Speculative"},
        {"idPrefix": "tail", "kind": "spot", "count": 2, "state": "Speculative"},
        {"idPrefix": "idle", "kind": "metal", "count": 2, "state": "Idle"},
    ],
}

LIMITS = Limits(
    create_seconds=3, configure_seconds=3, drain_seconds=3, delete_seconds=3, call_seconds=5, quiet_seconds=0.25
)
