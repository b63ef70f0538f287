"""What the shard keeps on its disk, and that it refuses to guess when it can't read it."""

import json
from pathlib import Path
from typing import Any

import pytest

from bigfleet.core.machines import Machine, MachineState
from bigfleet.engine import Action, ActionKind
from bigfleet.shard.options import ShardOptions
from bigfleet.shard.provider.audit import AuditLog
from bigfleet.shard.provider.domains import CorruptDomains, Domains
from bigfleet.shard.provider.epoch import CorruptEpoch, Fence, next_epoch


def in_rack(rack: str) -> Machine:
    return Machine("m", MachineState.SPECULATIVE, zone="zone-a", labels={"rack": rack})


class TestEpoch:
    def test_starts_from_the_clock_and_grows_with_each_start(self, tmp_path: Path) -> None:
        assert [next_epoch(tmp_path / "new", now=1000.5) for _ in range(3)] == [1000, 1001, 1002]

    def test_a_lost_disk_does_not_bring_an_old_epoch_back(self, tmp_path: Path) -> None:
        before = [next_epoch(tmp_path / "old", now=1000.0), next_epoch(tmp_path / "old", now=1001.0)]
        assert next_epoch(tmp_path / "replaced", now=1002.0) > max(before)

    @pytest.mark.parametrize("text", ["", "x", "-1", "0", "1.5", "1 2"])
    def test_that_cannot_be_read_stops_the_shard(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "epoch").write_text(text)
        with pytest.raises(CorruptEpoch, match="epoch"):
            next_epoch(tmp_path, now=1000.0)
        assert (tmp_path / "epoch").read_text() == text

    def test_every_token_is_newer_than_the_last(self) -> None:
        fence = Fence("shard-0", 4)
        tokens = [fence.next() for _ in range(3)]
        assert [(token.shard_id, token.epoch, token.sequence) for token in tokens] == [
            ("shard-0", 4, 1),
            ("shard-0", 4, 2),
            ("shard-0", 4, 3),
        ]


class TestDomains:
    def test_without_any_every_machine_is_ours(self, tmp_path: Path) -> None:
        assert Domains(tmp_path).contains(in_rack("a"))

    def test_narrow_what_is_ours_and_outlive_a_restart(self, tmp_path: Path) -> None:
        assert Domains(tmp_path).assign(("rack", "a"))
        domains = Domains(tmp_path)
        assert domains.contains(in_rack("a"))
        assert not domains.contains(in_rack("b"))
        assert not domains.assign(("rack", "a")), "it is ours already"
        assert domains.assign(("topology.kubernetes.io/zone", "zone-a"))
        assert domains.contains(in_rack("b")), "one domain is enough"

    def test_losing_the_last_one_leaves_nothing_rather_than_everything(self, tmp_path: Path) -> None:
        domains = Domains(tmp_path)
        assert not domains.unassign(("rack", "a"))
        domains.assign(("rack", "a"))
        assert domains.unassign(("rack", "a"))
        assert not Domains(tmp_path).contains(in_rack("a"))

    @pytest.mark.parametrize("text", ["", "{", "[1]", '[["a"]]'])
    def test_that_cannot_be_read_stop_the_shard(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "domains.json").write_text(text)
        with pytest.raises(CorruptDomains):
            Domains(tmp_path)


def test_the_audit_log_has_one_json_line_per_action_and_is_only_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    action = Action(ActionKind.RECLAIM, "m", "c", "phase3.excess", grace_seconds=600)
    for cycle in (1, 2):
        with AuditLog(path) as audit:
            audit.record(cycle, action, "success")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line.pop("cycle") for line in lines] == [1, 2]
    assert lines[0].pop("time").endswith("+00:00")
    assert lines[0] == {
        "level": "INFO",
        "msg": "action",
        "kind": "Reclaim",
        "machine": "m",
        "cluster": "c",
        "reason": "phase3.excess",
        "grace_seconds": 600,
        "outcome": "success",
    }


@pytest.mark.parametrize(
    "bad",
    [
        {"id": ""},
        {"execute_concurrency": 0},
        {"cycle_interval_seconds": 0},
        {"coordinator_heartbeat_interval_seconds": -1},
        {"reclaim_cap_fraction": 1.5},
        {"max_actions_per_cycle": -1},
        {"reconnect_seconds": -1},
        {"list_page_size": -1},
        {"full_reconcile_interval_seconds": 0},
        {"plaintext": False},
    ],
    ids=str,
)
def test_options_that_make_no_sense_are_refused_by_name(tmp_path: Path, bad: dict[str, Any]) -> None:
    good: dict[str, Any] = {
        "listen": "127.0.0.1:0",
        "metrics_addr": "127.0.0.1:0",
        "id": "s",
        "data_dir": tmp_path,
        "provider_addr": "127.0.0.1:1",
        "plaintext": True,
    }
    with pytest.raises(ValueError, match=next(iter(bad))):
        ShardOptions(**(good | bad))
