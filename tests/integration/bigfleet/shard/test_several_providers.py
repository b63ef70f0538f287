"""One shard, two providers: when one of them dies, the other's machines are bought and bound all the same."""

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from tests.integration.players.provider_client import fleet_of, provider_at
from tests.integration.players.shard_client import cluster_at, shard_at, small_need


def fleet(prefix: str) -> dict[str, Any]:
    return fleet_of({"idPrefix": prefix, "kind": "small", "count": 3, "state": "Speculative"})


async def test_a_provider_that_dies_does_not_stop_the_other(tmp_path: Path) -> None:
    for name in ("aws", "gcp"):
        (tmp_path / name).mkdir()
    async with AsyncExitStack() as other, provider_at(tmp_path / "aws", fleet("aws")) as aws:
        gcp = await other.enter_async_context(provider_at(tmp_path / "gcp", fleet("gcp")))
        addresses = f"aws=127.0.0.1:{aws.provider.port},gcp=127.0.0.1:{gcp.provider.port}"
        options = {"provider_addr": addresses, "cycle_interval_seconds": 0.1}
        async with shard_at(tmp_path, aws, **options) as shard, cluster_at(shard, aws) as cluster:
            await shard.until_metric(6, "inventory_machines")
            await other.aclose()
            await shard.until_at_least(2, "provider_list_errors_total", provider="gcp")
            await cluster.roll_up(small_need(machines=3))
            assert await cluster.until_configured(3) == {f"aws-small-{number}" for number in range(3)}
            assert await shard.metric("inventory_machines") == 6, "what is known of the other stays"
            assert await shard.metric("provider_list_errors_total", provider="aws") == 0
