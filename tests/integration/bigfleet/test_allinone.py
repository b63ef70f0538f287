"""`bigfleet all-in-one` on a laptop: one command, TLS from its own CA, and the way from a roll-up to an answer."""

import asyncio
import sys
from pathlib import Path

import pytest

from bigfleet.api.v1alpha1 import capacity_pb2, shard_pb2, shard_pb2_grpc
from bigfleet.process.parentdeath import dying_with_us
from bigfleet.security import channel
from scaletest import toolchain
from tests.bench.measuring.processes import tree
from tests.integration.players.apiserver import free_ports
from tests.integration.players.coordinators import eventually
from tests.integration.players.ctl import bigfleetctl
from tests.integration.players.shard_client import small_need

pytestmark = pytest.mark.integration


def consecutive_ports() -> int:
    """The first of three that nobody uses: etcd's follow the coordinator's."""
    return next(port for port in iter(lambda: free_ports(1)[0], 0) if port < 60_000)


async def test_one_command_makes_a_fleet_that_answers(
    tmp_path: Path, etcd_tools: toolchain.Toolchain, capfd: pytest.CaptureFixture[str]
) -> None:
    (shard, provider), coordinator = free_ports(2), consecutive_ports()
    process = await asyncio.create_subprocess_exec(
        *dying_with_us([sys.executable, "-m", "bigfleet.cli", "all-in-one"]),
        *(f"--data-dir={tmp_path}", f"--shard-port={shard}", f"--provider-port={provider}", "--metrics-offset=-37"),
        *(f"--coordinator-port={coordinator}", f"--etcd-binary={etcd_tools.path('etcd')}"),
    )
    ctl = ("--coordinator", f"127.0.0.1:{coordinator}", "--tls-dir", tmp_path / "tls" / "admin", "--timeout", "2s")
    try:

        async def registered() -> bool:
            assert process.returncode is None
            return "shard-0" in (await bigfleetctl(*ctl, "list-shards", "-o", "name")).out

        await eventually(registered, seconds=60)
        wrong_port = ("--coordinator", f"127.0.0.1:{shard}", *ctl[2:])
        assert "is it the coordinator's port?" in (await bigfleetctl(*wrong_port, "list-shards")).err
        impossible = small_need(machines=1)
        async with channel(f"127.0.0.1:{shard}", tmp_path / "tls" / "laptop", "shard") as dialled:
            session = shard_pb2_grpc.ShardStub(dialled).Session()
            await session.write(shard_pb2.OperatorMessage(hello=shard_pb2.Hello(cluster_id="laptop")))
            rollup = capacity_pb2.ClusterCapacityNeeds(cluster_id="laptop", needs=[impossible])
            await session.write(shard_pb2.OperatorMessage(rollup=rollup))

            async def explained() -> bool:
                return "that meets these requirements" in (await bigfleetctl(*ctl, "why", "--cluster", "laptop")).out

            await eventually(explained)
            session.cancel()
        everything = tree(process.pid)
        capfd.readouterr()  # a busy machine may make etcd complain while it starts
        process.terminate()
        async with asyncio.timeout(30):
            assert await process.wait() == 0
        assert not [pid for pid in everything if Path(f"/proc/{pid}").exists()]
        assert '"level":"error"' not in capfd.readouterr().err, "a clean stop is a quiet one"
        assert any((tmp_path / "provider").iterdir()), "the provider's machines are remembered too"
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
