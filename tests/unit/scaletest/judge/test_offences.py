"""A rule that was broken: the failure names the machine, and the shard that commanded it."""

from typing import Any

from scaletest.judge.gates.listing import gates_for
from scaletest.judge.readings.offences import first_offences, offence_of
from tests.unit.plans import smoke_plan


def violation(rule: str, machine: str, **details: Any) -> dict[str, Any]:
    return {"time": 1.0, "event": "violation", "rule": rule, "machine": machine, "cluster": ""} | details


def test_the_first_machine_of_each_rule_is_named() -> None:
    offences = first_offences(
        [
            {"time": 1.0, "call": "Create", "machine": "m-0", "answer": "OK"},
            {"time": 1.0, "call": "Drain", "machine": "m-0", "shard": "stranger", "answer": "PERMISSION_DENIED"},
            {"time": 1.0, "call": "Configure", "machine": "m-4", "shard": "bigfleet-shard-1", "answer": "INTERNAL"},
            violation("two_owners", "m-1", cluster="kwok-cluster-0", shard="bigfleet-shard-1", epoch=3),
            violation("two_owners", "m-2", shard="bigfleet-shard-0", epoch=3),
            violation("shape_told_wrong", "m-3", fields=["price", "zone"]),
        ]
    )
    assert offences == {
        "call_refused": "machine m-4, commanded by bigfleet-shard-1, call Configure, answer INTERNAL",
        "two_owners": "machine m-1 of kwok-cluster-0, commanded by bigfleet-shard-1",
        "shape_told_wrong": "machine m-3, fields price and zone",
    }


def test_a_gate_of_several_rules_names_the_one_that_was_broken() -> None:
    offences = {"fence_broken": "machine m-1"}
    assert offence_of("two_owners|fence_broken", offences) == "for example machine m-1"
    assert offence_of("two_owners|blob_wrong", offences) == ""


def test_every_gate_on_rules_of_the_ledger_knows_which() -> None:
    gates = [gate for gate in gates_for(smoke_plan()) if "ledger_violations_total" in gate.query]
    assert gates
    for gate in gates:
        assert gate.rules
        assert f'rule=~"{gate.rules}"' in gate.query
