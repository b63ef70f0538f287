"""How CapacityRequests become a roll-up (docs/reference/engine.md#from-pod-to-need)."""

from collections.abc import Mapping
from typing import Any

import pytest
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st

from bigfleet.core import penalty
from bigfleet.core.vectors import add, format_vector, largest
from bigfleet.operator.rollup import ClusterDemand, Contribution, UnsupportedRequest, contribution_of, group_of, rollup

ZONE = "topology.kubernetes.io/zone"
RACK = "topology.bigfleet/rack"


def spec(**fields: Any) -> dict[str, Any]:
    return {"priority": 1000, "resources": {"cpu": "1", "memory": "2Gi"}} | fields


def needs_of(*specs: Mapping[str, Any]) -> list[dict[str, Any]]:
    demand = ClusterDemand()
    for index, item in enumerate(specs):
        demand.put(f"default/cr-{index}", contribution_of(item))
    return [json_format.MessageToDict(need, preserving_proto_field_name=True) for need in demand.needs()]


def test_requests_of_one_profile_add_up_and_the_largest_pod_is_remembered() -> None:
    in_zone = [{"key": ZONE, "operator": "In", "values": ["b", "a"]}]
    assert needs_of(
        spec(requirements=in_zone, resources={"cpu": "1500m", "memory": "1Gi"}),
        spec(requirements=in_zone, resources={"cpu": "1", "memory": "4Gi", "nvidia.com/gpu": 2}),
    ) == [
        {
            "requirements": [{"key": ZONE, "operator": "IN", "values": ["a", "b"]}],
            "aggregate_resources": {"cpu": "2500m", "memory": str(5 * 1024**3), "nvidia.com/gpu": "2"},
            "min_unit": {"cpu": "1500m", "memory": str(4 * 1024**3), "nvidia.com/gpu": "2"},
            "priority": 1000,
        }
    ]


def test_a_whole_request_on_the_wire() -> None:
    request = spec(
        requirements=[
            {"key": ZONE, "operator": "NotIn", "values": ["c"]},
            {"key": "gpu", "operator": "DoesNotExist"},
            {"key": "disk", "operator": "Exists"},
        ],
        interruptionPenalty="500m",
        reclamationPenalty=65536,
        topologySpread=[
            {"topologyKey": ZONE, "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule"},
            {"topologyKey": RACK, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"},
        ],
        coLocation={"topologyKey": RACK, "labelSelector": {"matchLabels": {"job": "train"}}},
    )
    assert needs_of(request) == [
        {
            "requirements": [
                {"key": "disk", "operator": "EXISTS"},
                {"key": "gpu", "operator": "DOES_NOT_EXIST"},
                {"key": RACK, "operator": "SAME"},
                {"key": ZONE, "operator": "NOT_IN", "values": ["c"]},
            ],
            "aggregate_resources": {"cpu": "1", "memory": str(2 * 1024**3)},
            "min_unit": {"cpu": "1", "memory": str(2 * 1024**3)},
            "priority": 1000,
            "spread": [{"topology_key": ZONE, "max_skew": 2, "when_unsatisfiable": "DO_NOT_SCHEDULE"}],
            "interruption_penalty_bucket": "HALF_DOLLAR",
            "reclamation_penalty_bucket": "UP_TO_65536",
            "group": f"{RACK}\x00job=train,;",
        }
    ]


@pytest.mark.parametrize(
    "other",
    [
        {"requirements": [{"key": "b", "operator": "Exists"}, {"key": "a", "operator": "In", "values": ["y", "x"]}]},
        {
            "requirements": [
                {"key": "a", "operator": "In", "values": ["x", "y"]},
                {"key": "b", "operator": "Exists", "values": []},
                {"key": "b", "operator": "Exists"},
            ]
        },
        {"resources": {"cpu": "64"}},
        {"topologySpread": [{"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}]},
    ],
    ids=["order", "repetition", "resources", "soft spread"],
)
def test_what_does_not_matter_does_not_change_the_fingerprint(other: dict[str, Any]) -> None:
    base = spec(requirements=[{"key": "a", "operator": "In", "values": ["x", "y"]}, {"key": "b", "operator": "Exists"}])
    assert contribution_of(base).key == contribution_of(base | other).key


@pytest.mark.parametrize(
    "other",
    [
        {"priority": 1001},
        {"interruptionPenalty": "0"},
        {"reclamationPenalty": "8"},
        {"requirements": [{"key": "a", "operator": "In", "values": ["x"]}]},
        {"topologySpread": [{"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]},
        {"coLocation": {"topologyKey": RACK}},
    ],
    ids=lambda other: next(iter(other)),
)
def test_what_matters_does(other: dict[str, Any]) -> None:
    assert contribution_of(spec()).key != contribution_of(spec(**other)).key


def test_the_fingerprint_is_the_wires() -> None:
    request = spec(
        requirements=[{"key": ZONE, "operator": "In", "values": ["b", "a"]}],
        reclamationPenalty="0",
        topologySpread=[{"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}],
        coLocation={"topologyKey": RACK},
    )
    assert contribution_of(request).key[0] == f"p=1000|ipb=0|rpb=1|reqs={RACK}:5:;{ZONE}:1:a,b|spr={ZONE}:1:1"


def test_gangs_stay_apart_although_their_profile_is_one() -> None:
    gangs = [
        spec(coLocation={"topologyKey": RACK, "labelSelector": {"matchLabels": {"gang": name}}})
        for name in ("one", "two", "one")
    ]
    assert [(need["group"], need["aggregate_resources"]["cpu"]) for need in needs_of(*gangs)] == [
        (f"{RACK}\x00gang=one,;", "2"),
        (f"{RACK}\x00gang=two,;", "1"),
    ]


@pytest.mark.parametrize(
    ("selector", "group"),
    [
        (None, "k\x00"),
        ({}, "k\x00;"),
        ({"matchLabels": {"b": "2", "a": "1"}}, "k\x00a=1,b=2,;"),
        (
            {
                "matchLabels": {"a": "1"},
                "matchExpressions": [
                    {"key": "z", "operator": "Exists"},
                    {"key": "y", "operator": "In", "values": ["v2", "v1"]},
                ],
            },
            "k\x00a=1,;y In v1,v2;z Exists ;",
        ),
    ],
)
def test_the_group_string(selector: dict[str, Any] | None, group: str) -> None:
    assert group_of("k", selector) == group


@pytest.mark.parametrize(
    ("penalty_text", "bucket"),
    [(None, penalty.UNSPECIFIED), ("0", penalty.ZERO), ("500m", penalty.HALF_DOLLAR), (1, 3), ("1001m", 4), ("1G", 27)],
)
def test_penalties_fall_into_buckets(penalty_text: str | int | None, bucket: int) -> None:
    request = spec() if penalty_text is None else spec(interruptionPenalty=penalty_text)
    assert contribution_of(request).profile.interruption_bucket == bucket


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"requirements": [{"key": "cpus", "operator": "Gt", "values": ["4"]}]}, r"requirements\[0\] \(cpus\).*'Gt'"),
        ({"requirements": [{"key": "rack", "operator": "Same"}]}, "'Same' is unsupported"),
        ({"requirements": [{"key": "a b", "operator": "Exists"}]}, r"requirements\[0\]\.key: 'a b' is no name"),
        (
            {"requirements": [{"key": "a", "operator": "In", "values": ["ok", "$(x)"]}]},
            r"requirements\[0\]\.values\[1\]: '\$\(x\)' is no name",
        ),
        ({"coLocation": {"topologyKey": "-rack"}}, r"coLocation\.topologyKey: '-rack' is no name"),
        (
            {"topologySpread": [{"topologyKey": "UP/zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]},
            r"topologySpread\[0\]\.topologyKey: 'UP' is no DNS subdomain",
        ),
        ({"resources": {"cpu": "lots"}}, r"resources\[cpu\].*'lots'"),
        ({"resources": {"cpu": "-1"}}, r"resources\[cpu\] is negative"),
        ({"interruptionPenalty": "dear"}, "interruptionPenalty.*'dear'"),
    ],
)
def test_what_the_wire_cannot_say_is_refused_by_name(fields: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UnsupportedRequest, match=complaint):
        contribution_of(spec(**fields))


def test_the_roll_up_names_cluster_and_time() -> None:
    demand = ClusterDemand()
    demand.put("default/one", contribution_of(spec()))
    message = rollup("kwok-cluster-7", demand.needs(), 42)
    assert (message.cluster_id, message.timestamp_unix_nanos, len(message.needs)) == ("kwok-cluster-7", 42, 1)


def test_equal_demand_is_equal_bytes_whatever_the_order() -> None:
    forward, backward = ClusterDemand(), ClusterDemand()
    requests = {f"default/{p}": contribution_of(spec(priority=p)) for p in range(20)}
    for key, contribution in requests.items():
        forward.put(key, contribution)
    for key, contribution in reversed(requests.items()):
        backward.put(key, contribution)
    first, second = (
        rollup("c", demand.needs(), 1).SerializeToString(deterministic=True) for demand in (forward, backward)
    )
    assert first == second


CONTRIBUTIONS = st.builds(
    lambda priority, gang, cpu, gpu: contribution_of(
        {
            "priority": priority,
            "resources": {"cpu": f"{cpu}m"} | ({"gpu": gpu} if gpu else {}),
            "coLocation": {"topologyKey": RACK, "labelSelector": {"matchLabels": {"gang": gang}}},
        }
    ),
    st.integers(0, 2),
    st.sampled_from("ab"),
    st.integers(1, 5000),
    st.integers(0, 8),
)
CHANGES = st.lists(st.tuples(st.sampled_from("pqrstuv"), st.none() | CONTRIBUTIONS), max_size=40)


@given(CHANGES)
def test_demand_kept_up_to_date_equals_demand_counted_anew(
    changes: list[tuple[str, Contribution | None]],
) -> None:
    demand = ClusterDemand()
    alive: dict[str, Contribution] = {}
    for key, contribution in changes:
        changed = demand.put(key, contribution)
        assert changed == (alive.get(key) != contribution)
        alive.pop(key, None)
        if contribution is not None:
            alive[key] = contribution
        demand.needs()  # so that a row that is not rebuilt when it should be shows

    rows: dict[tuple[str, str], list[dict[str, int]]] = {}
    for contribution in alive.values():
        rows.setdefault(contribution.key, []).append(dict(contribution.amounts))
    expected = []
    for row in sorted(rows):
        aggregate: dict[str, int] = {}
        min_unit: dict[str, int] = {}
        for amounts in rows[row]:
            aggregate, min_unit = add(aggregate, amounts), largest(min_unit, amounts)
        expected.append((row[1], format_vector(aggregate), format_vector(min_unit)))
    assert len(demand) == len(alive)
    assert [(n.group, dict(n.aggregate_resources), dict(n.min_unit)) for n in demand.needs()] == expected
