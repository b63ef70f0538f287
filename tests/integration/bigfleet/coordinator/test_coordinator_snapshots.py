"""Snapshots: saved from a running leader, exported by it, restored with etcd's own tool; what was lost comes back."""

import json
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from bigfleet.coordinator.snapshots import LATEST, META_FILE, STATE_FILE
from scaletest import toolchain
from tests.integration.players.coordinators import ZONE, Coordinator, Trio, eventually
from tests.integration.players.ctl import Said, bigfleetctl

pytestmark = pytest.mark.integration


async def restore(source: Path, coordinator: Coordinator, tools: toolchain.Toolchain, *more: str) -> Said:
    options = coordinator.options
    return await bigfleetctl(
        "snapshot",
        "restore",
        source,
        f"--data-dir={options.data_dir}",
        f"--node-id={options.id}",
        f"--raft-advertise={options.etcd_peer_addr}",
        f"--etcdutl-binary={tools.path('etcdutl')}",
        *more,
    )


async def test_coordinators_that_lost_everything_come_back_from_a_saved_file(
    stopped: Coordinator, stopped_trio: Trio, tmp_path: Path, etcd_tools: toolchain.Toolchain
) -> None:
    saved = tmp_path / "saved.db"
    async with stopped.running():
        await eventually(stopped.leads)
        await stopped.report()
        await stopped.assign()
    async with stopped.running():
        await eventually(stopped.leads)
        before = await stopped.report()
        connection = ("--coordinator", stopped.options.listen, "--tls-dir", stopped.identities / "admin")
        save = partial(bigfleetctl, *connection, "snapshot", "save")
        said = await save(saved)
        assert (said.code, said.err) == (0, "")
        assert said.out.startswith("saved snapshot index=")
        assert f"term={before.coordinator_term} to {saved}" in said.out
        again = await save(saved)
        assert (again.code, "is there already" in again.err) == (1, True)
        assert (await save(saved, "--force")).code == 0
        nowhere = await save(tmp_path / "nowhere" / "saved.db")
        assert nowhere.code == 1
        assert f"cannot be written to {tmp_path / 'nowhere' / 'saved.db'}: No such file" in nowhere.err
        running = await restore(saved, stopped, etcd_tools, "--force")
        assert (running.code, "is running" in running.err) == (1, True), "what it writes from now on would be lost"

    first, second, _ = stopped_trio.members
    shutil.rmtree(first.options.data_dir, ignore_errors=True)
    said = await restore(saved, first, etcd_tools)
    assert (said.code, said.err) == (0, "")
    again = await restore(saved, first, etcd_tools)
    assert (again.code, "holds a member's state already" in again.err) == (1, True)
    async with first.running(), second.running():
        await eventually(second.ready)
        leader = await stopped_trio.leader([first, second])
        assert await leader.domains() == {ZONE: "shard-0"}
        after = await leader.report()
        # Terms start anew; the founding says which answer is newer.
        assert after.coordinator_term <= before.coordinator_term
        assert after.founded_unix_ns > before.founded_unix_ns
        async with leader.etcd() as client:
            assert sorted(member.name for member in await client.members()) == ["c-0", "c-1"]


async def test_the_leader_exports_its_state_and_an_export_can_be_restored(
    stopped: Coordinator, tmp_path: Path, etcd_tools: toolchain.Toolchain
) -> None:
    exports = tmp_path / "exports"
    exporting = Coordinator(
        replace(stopped.options, snapshot_export_dir=exports, snapshot_export_interval_seconds=0.2), stopped.identities
    )
    async with exporting.running():
        await eventually(exporting.leads)
        await exporting.report()
        await exporting.assign()
        before = set(exports.glob("[0-9]*"))
        # One may have been under way at the assignment; the next one has it.
        await eventually(lambda: len(set(exports.glob("[0-9]*")) - before) >= 2)
    meta = json.loads((exports / LATEST / META_FILE).read_text())
    assert meta["term"] > 0
    assert (exports / LATEST / STATE_FILE).stat().st_mode & 0o777 == 0o600
    shutil.rmtree(stopped.options.data_dir)
    said = await restore(exports / LATEST, stopped, etcd_tools)
    assert (said.code, said.err) == (0, "")
    async with stopped.running():
        await eventually(stopped.leads)
        assert await stopped.domains() == {ZONE: "shard-0"}


async def test_a_damaged_snapshot_is_refused(
    stopped: Coordinator, tmp_path: Path, etcd_tools: toolchain.Toolchain
) -> None:
    damaged = tmp_path / "damaged.db"
    damaged.write_bytes(b"\0" * 5000)
    said = await restore(damaged, stopped, etcd_tools)
    assert (said.code, "is not a whole snapshot" in said.err) == (1, True)
    assert not stopped.options.data_dir.joinpath("etcd").exists()
    missing = await restore(tmp_path / "none.db", stopped, etcd_tools)
    assert (missing.code, "there is no snapshot" in missing.err) == (2, True)
