"""A chart comes and goes, again and again, and leaves no process, no port and no file."""

from pathlib import Path
from typing import Any

import pytest

from scaletest.host.embedded import EmbeddedHost
from scaletest.host.markers import HOST_MARKER, marked
from scaletest.run.journal import RunJournal
from scaletest.run.steps.install import install_chart, prepare_namespace
from scaletest.run.steps.teardown import remove_release
from scaletest.run.target.helm import Helm
from scaletest.run.target.kube_api import KubeApi
from scaletest.run.target.occupancy import refuse_occupied
from tests.integration.scaletest.run.runner_cli import listening_on, write_chart
from tests.patience import eventually

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]

CYCLES, LONG_CYCLES = 5, 100


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_chart(tmp_path_factory.mktemp("cycles") / "chart")


@pytest.fixture(scope="module")
def seen() -> dict[str, Any]:
    """What the first cycle left; the others must leave the same."""
    return {}


def what_is_there(host: EmbeddedHost) -> dict[str, Any]:
    files = [path.relative_to(host.dir) for path in host.dir.rglob("*") if path.is_file()]
    return {
        "processes": len(marked(**{HOST_MARKER: host.id})),
        "listeners": listening_on(f"{host.address.rsplit('.', 2)[0]}."),
        # etcd's files come and go as it likes; the logs of pods that were removed stay as long as their host.
        "files": sorted(str(path) for path in files if path.parts[0] != "etcd" and path.parts[:2] != ("logs", "pods")),
        "descriptors": len(list(Path(f"/proc/{host.pid}/fd").iterdir())),
    }


@pytest.mark.parametrize(
    "cycle",
    [
        pytest.param(number, id=f"{number:03}", marks=[pytest.mark.long] if number > CYCLES else [])
        for number in range(1, LONG_CYCLES + 1)
    ],
)
async def test_an_install_and_its_removal_leave_nothing(
    host: EmbeddedHost, helm_binary: Path, chart: Path, seen: dict[str, Any], tmp_path: Path, cycle: int
) -> None:
    before = seen.setdefault("first", what_is_there(host))
    run_id, namespace = f"cycle-{cycle}", "cycles"
    identity = tmp_path / "identity"
    identity.mkdir()
    api = KubeApi(host.kubeconfig, namespace, run_id, identity)
    helm = Helm(helm_binary, host.kubeconfig, "tiny", namespace)
    journal = RunJournal(tmp_path / "events.jsonl", lambda _: None)
    await refuse_occupied(api, "gc")
    await prepare_namespace(api, run_id, identity)
    await install_chart(helm, api, journal, chart, {"runId": run_id}, 60, {})
    journal.close()
    assert [pod.status.phase for pod in await api.pods()] == ["Running"]
    assert await remove_release(helm, api, 60) == []

    def is_as_before() -> bool:
        now = what_is_there(host)
        return all(now[key] == before[key] for key in ("processes", "listeners", "files"))

    try:
        await eventually(is_as_before, 10)
    except TimeoutError:
        assert what_is_there(host) == before
    # Kept-alive connections to the API come and go; a leak would grow with every cycle.
    assert what_is_there(host)["descriptors"] < before["descriptors"] + 10
