"""`bigfleetctl` without a fleet: who it says we are, how it lays rows out, and its sentences about needs."""

from pathlib import Path
from typing import Any

import pytest

from bigfleet.api.v1alpha1 import shardread_pb2
from bigfleet.api.v1alpha1.capacity_pb2 import CapacityNeed, NodeSelectorRequirement
from bigfleet.api.v1alpha1.provider_pb2 import Resources
from bigfleet.ctl.cli import run
from bigfleet.ctl.output import table
from bigfleet.ctl.sentences import asked_for, explain, name_of
from bigfleet.security.authority import Authority
from bigfleet.security.identity import Identity

RACK = "topology.bigfleet/rack"


@pytest.fixture(autouse=True)
def nothing_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BIGFLEET_TLS_DIR", "BIGFLEET_COORDINATOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["list-shards"], "no certificate"),
        (["list-shards", "--tls-cert", "a", "--tls-key", "b"], "go together"),
        (["list-shards", "--tls-dir", "a", "--plaintext"], "which one?"),
        (["list-shards", "--plaintext", "--coordinator", "here"], "'here' is not HOST:PORT"),
    ],
)
def test_a_connection_that_makes_no_sense_is_named(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [[], ["list"], ["why"], ["list-shards", "--timeout", "soon"], ["list-shards", "-o", "xml"], ["assign-domain"]],
)
def test_a_command_that_makes_no_sense_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run(arguments)
    assert ended.value.code == 2
    assert "hint: `bigfleetctl" in capsys.readouterr().err


def test_anothers_key_is_noticed_before_anything_is_dialled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    authority = Authority.create("test")
    authority.issue(Identity("admin")).write(tmp_path)
    (tmp_path / "tls.key").write_bytes(authority.issue(Identity("admin")).private_key)
    assert run(["--tls-dir", str(tmp_path), "list-shards"]) == 1
    assert "is not the key of" in capsys.readouterr().err


def test_a_table_is_aligned_and_shows_what_is_missing() -> None:
    items: list[dict[str, object]] = [
        {"a": "long name", "b": None, "c": True},
        {"a": "x", "b": {"cpu": "4", "gpu": "1"}, "c": 0},
    ]
    assert table({"NAME": "a", "LACKING": "b", "DONE": "c"}, items).splitlines() == [
        "NAME        LACKING       DONE",
        "long name   —             yes",
        "x           cpu=4 gpu=1   0",
    ]


def view(**fields: Any) -> shardread_pb2.NeedView:
    need = CapacityNeed(
        requirements=[
            NodeSelectorRequirement(key="zone", operator=NodeSelectorRequirement.IN, values=["a", "b"]),
            NodeSelectorRequirement(key=RACK, operator=NodeSelectorRequirement.SAME),
        ],
        aggregate_resources={"cpu": "64", "memory": "128Gi"},
        min_unit={"cpu": "4"},
        priority=100,
    )
    return shardread_pb2.NeedView(need=need, profile_fingerprint="p=100", **fields)


def test_demand_is_told_in_words() -> None:
    assert asked_for(view().need) == (
        "priority 100; cpu 64 and memory 128Gi in all; each machine with at least cpu 4; zone in a, b; "
        f"all machines in one {RACK}"
    )


@pytest.mark.parametrize(
    ("reason", "sentence"),
    [
        (shardread_pb2.PRIORITY_STARVED, "serve demand that comes first"),
        (shardread_pb2.NO_MATCHING_SUPPLY, "knows no machine, in any state"),
        (shardread_pb2.TOPOLOGY_UNSATISFIABLE, f"no {RACK} has enough of them (r-1 was tried); it has been set aside"),
        (shardread_pb2.PREEMPTION_EXHAUSTED, "taken from demand of lower priority"),
        (shardread_pb2.UNMET_REASON_UNSPECIFIED, "gave no reason"),
    ],
)
def test_every_reason_has_its_sentence_and_its_advice(reason: int, sentence: str) -> None:
    told = explain(
        view(
            unmet_reason=reason,
            residual_deficit=Resources(resources={"cpu": "8"}),
            claimed_machine_count=2,
            bootstrap_count=1,
            age_cycles_unmet=1,
            same_domain="r-1",
            acquisition_parked=True,
            parked_age_cycles=3,
        )
    )
    text = "\n".join(told)
    assert sentence in text
    assert "What helps: " in text
    assert "It lacks cpu 8, for 1 cycle now." in text
    assert "It holds 2 machines; 1 machine is being configured for it." in text


def test_a_satisfied_need_says_where_else_to_look() -> None:
    assert explain(view(satisfied=True, claimed_machine_count=1))[1:] == [
        "  It is satisfied, by 1 machine.",
        "  If a Pod still waits, its machine may not have joined yet: kubectl get upcomingnodes.",
    ]


def test_gangs_of_the_same_demand_have_names_of_their_own() -> None:
    one, other = view(), view()
    other.need.group = "rack\0app=b"
    assert name_of(one) != name_of(other)
    assert name_of(one) == name_of(view())
