"""What an UpcomingNode says after each frame (docs/reference/wire.md#upcomingnode)."""

from typing import Any

import pytest

from bigfleet.api.v1alpha1.provider_pb2 import Resources
from bigfleet.api.v1alpha1.shard_pb2 import NodeStateUpdate, Taint
from bigfleet.operator.upcoming import new_record, next_phase, node_of, spec_changes, status_changes, wanted_spec


def frame(state: str = "CONFIGURING", **fields: Any) -> NodeStateUpdate:
    return NodeStateUpdate(machine_id="m1", state=state, **fields)


@pytest.mark.parametrize(
    ("state", "phase"),
    [
        ("SPECULATIVE", "Provisioning"),
        ("CREATING", "Provisioning"),
        ("CONFIGURING", "Registered"),
        ("CONFIGURED", "Ready"),
        ("DRAINING", "Draining"),
        ("FAILED", "Failed"),
    ],
)
def test_each_state_has_its_phase(state: str, phase: str) -> None:
    assert next_phase(None, frame(state)) == phase


@pytest.mark.parametrize("stored", ["Provisioning", "Launched"])
def test_a_machine_that_was_made_for_us_is_launched_when_idle(stored: str) -> None:
    assert next_phase(stored, frame("IDLE")) == "Launched"


@pytest.mark.parametrize("stored", [None, "Registered", "Ready", "Draining", "Drained", "Failed"])
def test_any_other_idle_machine_has_left(stored: str | None) -> None:
    assert next_phase(stored, frame("IDLE")) is None


@pytest.mark.parametrize("state", ["CONFIGURED", "IDLE", "FAILED"])
def test_a_removed_machine_has_left_whatever_its_state(state: str) -> None:
    assert next_phase("Ready", frame(state, removed=True)) is None


def test_a_drained_node_does_not_go_back_to_draining() -> None:
    assert next_phase("Drained", frame("DRAINING")) == "Drained"


def test_a_new_record_carries_what_the_node_will_have() -> None:
    update = frame(
        labels={"zone": "a"},
        resources=Resources(resources={"cpu": "4"}),
        taints=[Taint(key="gpu", value="yes", effect="NoSchedule")],
    )
    record = new_record("m1", update)
    assert record["metadata"] == {"name": "un-m1"}
    assert record["spec"] == {
        "resources": {"cpu": "4"},
        "labels": {"zone": "a"},
        "taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}],
    }
    assert node_of(record) is None


def test_a_spec_is_patched_only_where_it_differs() -> None:
    stored = {"resources": {"cpu": "4"}, "labels": {"zone": "a", "old": "x"}, "taints": [{"key": "gpu"}]}
    same = frame(labels={"zone": "a", "old": "x"}, resources=Resources(resources={"cpu": "4"}))
    assert spec_changes({key: stored[key] for key in ("resources", "labels")}, wanted_spec(same)) == {}
    other = frame(labels={"zone": "b"}, resources=Resources(resources={"cpu": "4"}))
    assert spec_changes(stored, wanted_spec(other)) == {"labels": {"zone": "b", "old": None}, "taints": None}


def test_a_status_is_patched_only_where_it_differs() -> None:
    update = frame("CONFIGURED", node_name="fake-m1", provider_id="fake://m1")
    first = status_changes({}, "Ready", update, "2026-01-01T00:00:00Z")
    assert first == {
        "phase": "Ready",
        "nodeRef": {"apiVersion": "v1", "kind": "Node", "name": "fake-m1"},
        "providerID": "fake://m1",
        "provisioningStartTime": "2026-01-01T00:00:00Z",
    }
    assert status_changes(first, "Ready", update, "2026-01-02T00:00:00Z") == {}


def test_what_a_frame_leaves_empty_stays() -> None:
    stored = {
        "phase": "Ready",
        "nodeRef": {"apiVersion": "v1", "kind": "Node", "name": "fake-m1"},
        "providerID": "fake://m1",
        "provisioningStartTime": "2026-01-01T00:00:00Z",
    }
    assert status_changes(stored, "Draining", frame("DRAINING"), "later") == {"phase": "Draining"}


def test_an_error_is_shown_until_the_node_is_ready_again() -> None:
    stored = {"phase": "Registered", "provisioningStartTime": "2026-01-01T00:00:00Z"}
    failed = status_changes(stored, "Failed", frame("FAILED", last_error="no boot"), "later")
    assert failed == {"phase": "Failed", "lastError": "no boot"}
    assert status_changes(stored | failed, "Registered", frame(), "later") == {"phase": "Registered"}
    assert status_changes(stored | failed, "Ready", frame("CONFIGURED"), "later") == {
        "phase": "Ready",
        "lastError": None,
    }
