"""The provider arms its losses by the ConfigMap of the run, read with its pod's ServiceAccount."""

from pathlib import Path

import pytest

from bigfleet.kube import KubeClient
from bigfleet.kube.resources import CONFIG_MAPS
from tests.integration.players.apiserver import NAMESPACE, ApiServer
from tests.integration.players.provider_client import eventually, provider_at

pytestmark = pytest.mark.integration

RUN = "scaletest-run"


@pytest.fixture
def service_account(apiserver: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a kubelet projects into a pod."""
    config = apiserver.config
    host, _, port = config.server.removeprefix("https://").partition(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    (tmp_path / "ca.crt").write_bytes(config.ca_pem or b"")
    (tmp_path / "token").write_text(config.token or "")
    return tmp_path


async def test_the_phase_follows_the_config_map(kube: KubeClient, service_account: Path, tmp_path: Path) -> None:
    async with provider_at(
        tmp_path, service_account_dir=service_account, run_config_map=RUN, namespace=NAMESPACE
    ) as client:

        async def until_phase(name: str) -> None:
            async def reached() -> bool:
                return client.provider.phase.name == name

            await eventually(reached)

        assert client.provider.phase.name == ""
        await kube.create(CONFIG_MAPS, {"metadata": {"name": RUN}, "data": {"phase": "install"}}, NAMESPACE)
        await until_phase("install")
        await kube.create(CONFIG_MAPS, {"metadata": {"name": "other"}, "data": {"phase": "soak"}}, NAMESPACE)
        await kube.patch(CONFIG_MAPS, RUN, {"data": {"phase": "soak", "soakStart": "1700000000"}}, NAMESPACE)
        await until_phase("soak")
        await kube.delete(CONFIG_MAPS, RUN, NAMESPACE)
        await until_phase("")
        await kube.delete(CONFIG_MAPS, "other", NAMESPACE)
