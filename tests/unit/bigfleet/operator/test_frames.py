"""The operator's small answers: bootstrap texts, capacity hints, the outbox, which Pods a drain waits for."""

import asyncio
import hashlib
import re
from pathlib import Path
from typing import Any

import grpc
import pytest
from prometheus_client import CollectorRegistry, Counter, generate_latest

from bigfleet.api.v1alpha1.capacity_pb2 import CapacityNeed, ClusterCapacityNeeds, NodeSelectorRequirement
from bigfleet.api.v1alpha1.provider_pb2 import Resources
from bigfleet.api.v1alpha1.shard_pb2 import (
    AvailableCapacityUpdate,
    BootstrapRequest,
    OperatorMessage,
    ReclaimAck,
)
from bigfleet.operator.availability import hint_name, hint_spec
from bigfleet.operator.bootstrap import Bootstrap
from bigfleet.operator.drain import must_leave
from bigfleet.operator.metrics import NODE_PHASES, SESSION_ENDERS, OperatorMetrics
from bigfleet.operator.options import OperatorOptions
from bigfleet.operator.outbox import CAPACITY, ShardOutbox
from bigfleet.operator.session import CertificateRenewed, SessionEnded, ended_by
from bigfleet.operator.template import TemplateError

IN_ZONE = NodeSelectorRequirement(key="zone", operator=NodeSelectorRequirement.IN, values=["a"])


def test_without_a_template_the_bootstrap_is_a_comment() -> None:
    answer = Bootstrap("c1").respond(BootstrapRequest(request_id="r1", cluster_id="c1", machine_id="m1"))
    assert answer.request_id == "r1"
    assert answer.user_data == b"#cloud-config\n# bootstrap of machine m1 for cluster c1\n"
    assert not answer.error


def test_a_template_is_filled_in_and_shell_variables_are_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "bootstrap.tmpl"
    file.write_text("join --cluster {{ .ClusterID }} --name {{.MachineID}} $HOME ${X} # {{ .Requirements }}")
    request = BootstrapRequest(request_id="r1", cluster_id="c1", machine_id="m1", requirements=[IN_ZONE])
    assert Bootstrap.load("c1", file).respond(request).user_data.decode() == (
        "join --cluster c1 --name m1 $HOME ${X} # [{zone In [a]}]"
    )


def test_a_template_goes_through_the_requirements_as_gos_does() -> None:
    template = (
        "labels:\n"
        "{{- range .Requirements }}\n"
        "  {{ .Key }} {{ .Operator }}:{{/* one each */}}\n"
        "  {{- range .Values }} {{ . }}@{{ $.ClusterID }}{{ end }}\n"
        "{{- end }}\n"
    )
    any_disk = NodeSelectorRequirement(key="disk", operator=NodeSelectorRequirement.EXISTS)
    two_zones = NodeSelectorRequirement(key="zone", operator=NodeSelectorRequirement.IN, values=["a", "b"])
    request = BootstrapRequest(request_id="r1", cluster_id="c1", machine_id="m1", requirements=[any_disk, two_zones])
    assert Bootstrap("c1", template).respond(request).user_data.decode() == (
        "labels:\n  disk Exists:\n  zone In: a@c1 b@c1\n"
    )


@pytest.mark.parametrize(
    ("template", "complaint"),
    [
        ("{{ .Cluster }}", "{{ .Cluster }} is unknown: there are .ClusterID, .MachineID, .Requirements"),
        ("{{ range .Requirements }}{{ .ClusterID }}{{ end }}", "there are .Key, .Operator, .Values"),
        ("{{ range .Requirements }}{{ .Key }}", "a {{ range }} has no {{ end }}"),
        ("{{ range .ClusterID }}{{ end }}", "{{ range .ClusterID }}: that is no list"),
        ("{{ end }}", "{{ end }} is unknown"),
        ("{{ if .MachineID }}{{ end }}", "{{ if .MachineID }} is unknown"),
        ("{{ .ClusterID | upper }}", "{{ .ClusterID | upper }} is unknown"),
    ],
)
def test_a_template_that_asks_for_the_unknown_is_refused_at_the_start(
    tmp_path: Path, template: str, complaint: str
) -> None:
    file = tmp_path / "bootstrap.tmpl"
    file.write_text(template)
    with pytest.raises(TemplateError, match=re.escape(complaint)) as refusal:
        Bootstrap.load("c1", file)
    assert str(file) in str(refusal.value)


def test_a_bootstrap_for_another_cluster_is_refused() -> None:
    answer = Bootstrap("c1").respond(BootstrapRequest(request_id="r1", cluster_id="c2"))
    assert "'c2'" in answer.error
    assert not answer.user_data


def test_a_hint_carries_everything_including_its_cost() -> None:
    update = AvailableCapacityUpdate(
        supersedes_key="available:p=1",
        requirements=[IN_ZONE],
        resources=Resources(resources={"cpu": "4"}),
        available_count=3,
        confidence=AvailableCapacityUpdate.MEDIUM,
        cost_per_hour=1.25,
    )
    assert hint_spec(update) == {
        "availability": "Medium",
        "availableCount": 3,
        "cost": "1.25",
        "resources": {"cpu": "4"},
        "requirements": [{"key": "zone", "operator": "In", "values": ["a"]}],
    }
    assert hint_spec(AvailableCapacityUpdate())["cost"] == "0"
    assert hint_name("available:p=1") == "ac-" + hashlib.sha256(b"available:p=1").hexdigest()[:32]


def ack(name: str) -> OperatorMessage:
    return OperatorMessage(reclaim_ack=ReclaimAck(instruction_id=name))


class Wire:
    """Takes messages until it is cut."""

    def __init__(self, cut_after: int) -> None:
        self.sent: list[OperatorMessage] = []
        self.full = asyncio.Event()
        self._cut_after = cut_after

    async def write(self, message: OperatorMessage) -> None:
        if len(self.sent) == self._cut_after:
            raise ConnectionError("cut")
        self.sent.append(message)
        if len(self.sent) == self._cut_after:
            self.full.set()


Sent = list[ClusterCapacityNeeds]


@pytest.fixture
def dropped() -> Counter:
    return Counter("dropped", "Dropped.", registry=CollectorRegistry())


@pytest.fixture
def sent() -> Sent:
    return []


def count(counter: Counter) -> float:
    return next(sample.value for metric in counter.collect() for sample in metric.samples)


async def test_only_the_newest_roll_up_is_sent_and_answers_go_first(dropped: Counter, sent: Sent) -> None:
    outbox = ShardOutbox(dropped, sent.append)
    for time in (1, 2):
        outbox.put_rollup(ClusterCapacityNeeds(timestamp_unix_nanos=time))
    outbox.put(ack("a"))
    wire = Wire(cut_after=2)
    sending = asyncio.create_task(outbox.send_to(wire.write))
    await asyncio.wait_for(wire.full.wait(), 5)
    outbox.put(ack("b"))
    with pytest.raises(ConnectionError):
        await sending
    assert [message.WhichOneof("payload") for message in wire.sent] == ["reclaim_ack", "rollup"]
    assert wire.sent[1].rollup.timestamp_unix_nanos == 2
    assert len(sent) == 1, "of two that were built"


async def test_a_roll_up_counts_as_sent_once_it_was_written(dropped: Counter, sent: Sent) -> None:
    outbox = ShardOutbox(dropped, sent.append)
    outbox.put_rollup(ClusterCapacityNeeds())
    with pytest.raises(ConnectionError):
        await outbox.send_to(Wire(cut_after=0).write)
    assert sent == []


async def test_an_answer_whose_session_broke_is_sent_in_the_next_one(dropped: Counter, sent: Sent) -> None:
    outbox = ShardOutbox(dropped, sent.append)
    outbox.put(ack("a"))
    with pytest.raises(ConnectionError):
        await outbox.send_to(Wire(cut_after=0).write)
    outbox.put(ack("b"))
    wire = Wire(cut_after=2)
    outbox.put(ack("c"))
    with pytest.raises(ConnectionError):
        await outbox.send_to(wire.write)
    assert [message.reclaim_ack.instruction_id for message in wire.sent] == ["a", "b"]


async def test_a_full_outbox_drops_the_newcomer_and_counts_it(dropped: Counter, sent: Sent) -> None:
    outbox = ShardOutbox(dropped, sent.append)
    for index in range(CAPACITY + 3):
        outbox.put(ack(str(index)))
    assert count(dropped) == 3
    wire = Wire(cut_after=CAPACITY - 1)
    with pytest.raises(ConnectionError):
        await outbox.send_to(wire.write)
    assert wire.sent[-1].reclaim_ack.instruction_id == str(CAPACITY - 2)


@pytest.mark.parametrize(
    ("metadata", "phase", "waits"),
    [
        ({}, "Running", True),
        ({"ownerReferences": [{"kind": "ReplicaSet", "controller": True}]}, "Pending", True),
        ({"ownerReferences": [{"kind": "DaemonSet", "controller": True}]}, "Running", False),
        ({"annotations": {"kubernetes.io/config.mirror": "x"}}, "Running", False),
        ({}, "Succeeded", False),
    ],
    ids=["plain", "replica", "daemon", "mirror", "finished"],
)
def test_a_drain_waits_only_for_pods_that_can_leave(metadata: dict[str, Any], phase: str, waits: bool) -> None:
    assert must_leave({"metadata": metadata, "status": {"phase": phase}}) is waits


@pytest.mark.parametrize("tls", [{}, {"tls_dir": Path("tls"), "plaintext": True}], ids=["neither", "both"])
def test_plaintext_has_to_be_asked_for(tls: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="give one of --tls-dir"):
        OperatorOptions("c", "127.0.0.1:1", Path("kubeconfig"), "127.0.0.1:2", **tls)


def sent_demand(registry: CollectorRegistry, resource: str, priority_class: str, kind: str) -> float | None:
    labels = {"resource": resource, "priority_class": priority_class, "kind": kind}
    return registry.get_sample_value("bigfleet_operator_sent_demand", labels)


def test_what_was_sent_is_added_up_as_the_shard_shows_it() -> None:
    registry = CollectorRegistry()
    metrics = OperatorMetrics(registry)
    rows = [
        CapacityNeed(aggregate_resources={"cpu": "1500m", "memory": "2Gi"}, priority=1000),
        CapacityNeed(aggregate_resources={"cpu": "2"}, priority=1001),
        CapacityNeed(aggregate_resources={"cpu": "8"}, priority=100, group="rack"),
    ]
    metrics.sent_rollups.sent(ClusterCapacityNeeds(needs=rows))
    text = generate_latest(registry).decode()
    assert "bigfleet_operator_rollups_sent_total 1.0" in text
    assert sent_demand(registry, "cpu", "service", "plain") == 3.5
    assert sent_demand(registry, "cpu", "batch", "gang") == 8
    assert sent_demand(registry, "memory", "service", "plain") == 2 * 2**30


def rpc_error(code: grpc.StatusCode) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata())


@pytest.mark.parametrize(
    ("error", "side"),
    [
        (SessionEnded("closed"), "shard"),
        (rpc_error(grpc.StatusCode.INTERNAL), "shard"),
        (rpc_error(grpc.StatusCode.UNAVAILABLE), "connection"),
        (SessionEnded("closed while writing", grpc.StatusCode.UNAVAILABLE), "connection"),
        (rpc_error(grpc.StatusCode.ABORTED), "refusal"),
        (rpc_error(grpc.StatusCode.RESOURCE_EXHAUSTED), "refusal"),
        (CertificateRenewed("renewed"), "operator"),
        (OSError("no route"), "operator"),
    ],
)
def test_a_session_is_ended_by_one_side(error: Exception, side: str) -> None:
    assert ended_by(error) == side
    assert side in SESSION_ENDERS


def test_every_series_exists_before_anything_happened() -> None:
    registry = CollectorRegistry()
    OperatorMetrics(registry)
    text = generate_latest(registry).decode()
    for phase in NODE_PHASES:
        assert f'bigfleet_operator_node_state_update_duration_seconds_count{{phase="{phase}"}} 0.0' in text
    for line in (
        'bigfleet_operator_rollup_phase_duration_seconds_bucket{le="+Inf",phase="list"} 0.0',
        'bigfleet_operator_rollup_duration_seconds_bucket{le="0.001"} 0.0',
        'bigfleet_operator_acknowledge_duration_seconds_bucket{le="327.68"} 0.0',
        "bigfleet_operator_acknowledged_total 0.0",
        "bigfleet_operator_outbox_dropped_total 0.0",
        "bigfleet_operator_rollups_sent_total 0.0",
        "bigfleet_operator_session_reconnects_total 0.0",
        'bigfleet_operator_sessions_ended_total{by="shard"} 0.0',
        "bigfleet_operator_removed_in_service_total 0.0",
        "bigfleet_operator_blob_requests_total 0.0",
        "bigfleet_operator_drains_total 0.0",
        "bigfleet_operator_dispatch_inflight 0.0",
        'bigfleet_operator_upcoming_node_writes_total{op="delete",outcome="noop"} 0.0',
    ):
        assert line in text
