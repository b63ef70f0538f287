"""Helm against the embedded host: a chart comes and goes as on any cluster."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from scaletest.errors import HelmError
from scaletest.host.embedded import EmbeddedHost
from scaletest.host.markers import command_of
from scaletest.run.target.helm import Helm
from tests.integration.scaletest.host.embedded_host import Kubectl
from tests.integration.scaletest.run.runner_cli import write_chart
from tests.patience import eventually

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]

CHART = "apiVersion: v2\nname: tiny\nversion: 0.1.0\n"
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: tiny}
spec:
  replicas: 1
  selector: {matchLabels: {app: tiny}}
  template:
    metadata: {labels: {app: tiny}}
    spec:
      terminationGracePeriodSeconds: 5
      containers:
        - name: tiny
          image: none
          command: [sh, -c, "echo {{ .Values.word }}; exec python -m http.server 8080 --bind $(POD_IP)"]
          env: [{name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]
          readinessProbe: {httpGet: {port: 8080}}
"""


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    (tmp_path / "templates").mkdir()
    (tmp_path / "Chart.yaml").write_text(CHART)
    (tmp_path / "templates" / "deployment.yaml").write_text(DEPLOYMENT)
    return tmp_path


async def helm(host: EmbeddedHost, *arguments: str) -> str:
    process = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).parent / "helm"),
        f"--kubeconfig={host.kubeconfig}",
        "--namespace=tiny",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await process.communicate()
    assert process.returncode == 0, out.decode()
    return out.decode()


async def test_a_chart_is_installed_upgraded_and_uninstalled(host: EmbeddedHost, kubectl: Kubectl, chart: Path) -> None:
    install = ("upgrade", "--install", "tiny", str(chart), "--create-namespace", "--wait", "--timeout=60s")
    for word in ("first", "second"):
        await helm(host, *install, f"--set=word={word}")
        await kubectl.until(lambda pods: len(pods["items"]) == 1, "pods", "-n", "tiny")
        assert word in await kubectl("logs", "-n", "tiny", "deploy/tiny")
    releases = json.loads(await helm(host, "list", "-o", "json"))
    assert [(one["status"], one["revision"]) for one in releases] == [("deployed", "2")]
    await helm(host, "uninstall", "tiny", "--wait", "--cascade=foreground", "--timeout=60s")
    assert (await kubectl.get("pods", "-n", "tiny"))["items"] == []
    assert not any((host.dir / "pods").iterdir())


def helm_processes(release: str) -> list[int]:
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]
    return [pid for pid in pids if command_of(pid)[1:3] == ["upgrade", release]]


async def leave_pending(host: EmbeddedHost, kubectl: Kubectl, chart: Path, release: str, state: str) -> None:
    """Start what never becomes Ready with a Helm of our own, and kill it."""
    flags = (f"--kubeconfig={host.kubeconfig}", "--namespace=pending", "--install", "--wait", "--set=delay=600,runId=x")
    process = await asyncio.create_subprocess_exec(
        *(str(Path(sys.executable).parent / "helm"), "upgrade", release, str(chart), *flags),
        stdout=asyncio.subprocess.DEVNULL,
    )
    label = f"name={release},status={state}"
    await kubectl.until(lambda found: bool(found["items"]), "secrets", "-n", "pending", "-l", label)
    process.kill()
    await process.wait()


async def test_what_a_killed_helm_left_pending_is_undone_by_the_next(
    host: EmbeddedHost, kubectl: Kubectl, helm_binary: Path, tmp_path: Path
) -> None:
    chart = write_chart(tmp_path / "chart")
    await kubectl("create", "namespace", "pending")
    ours = Helm(helm_binary, host.kubeconfig, "half", "pending")
    # An install is undone; an upgrade (revision 2) is rolled back (3) and made again (4).
    for state, revision in (("pending-install", "1"), ("pending-upgrade", "4")):
        await leave_pending(host, kubectl, chart, "half", state)
        await ours.install(chart, {"runId": "x"}, 60)
        [release] = (await kubectl.get("secrets", "-n", "pending", "-l", "name=half,status=deployed"))["items"]
        assert release["metadata"]["labels"]["version"] == revision
    await ours.uninstall(60)
    assert (await kubectl.get("pods", "-n", "pending"))["items"] == []


async def test_a_cancelled_install_ends_helm_at_once(
    host: EmbeddedHost, kubectl: Kubectl, helm_binary: Path, tmp_path: Path
) -> None:
    chart = write_chart(tmp_path / "chart")
    await kubectl("create", "namespace", "cancelled")
    ours = Helm(helm_binary, host.kubeconfig, "never", "cancelled")
    installing = asyncio.create_task(ours.install(chart, {"runId": "x", "delay": 600}, 600))
    [process] = await eventually(lambda: helm_processes("never"))
    installing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await installing
    assert not Path(f"/proc/{process}").exists()
    await ours.uninstall(60)


@pytest.mark.parametrize(
    ("template", "values", "said"),
    [
        ('replicas: {{ required "how many?" .Values.many }}', {}, ["how many?", "many = not set"]),
        ("replicas: {{ add .Values.few.x 1 }}", {"few": 3}, ["few"]),
        ("replicas: {{ .Values.replicas", {}, ["tiny.yaml"]),
        ("{{ if gt .Values.replicas 1 }}{{ end }}", {"replicas": "abc"}, ["replicas = 'abc' (--set)"]),
    ],
)
async def test_a_chart_that_does_not_render_is_shown_in_helms_words_with_its_values(
    helm_binary: Path, tmp_path: Path, template: str, values: dict[str, object], said: list[str]
) -> None:
    chart = write_chart(tmp_path / "chart")
    (chart / "templates" / "tiny.yaml").write_text(template)
    with pytest.raises(HelmError) as refused:
        await Helm(helm_binary, None, "tiny", "any").render(chart, values, values)
    for words in said:
        assert words in refused.value.message


async def test_the_users_helm_settings_do_not_lead_elsewhere(
    host: EmbeddedHost, kubectl: Kubectl, helm_binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HELM_KUBECONTEXT", "production")
    monkeypatch.setenv("HELM_NAMESPACE", "production")
    monkeypatch.setenv("KUBECONFIG", os.devnull)
    await kubectl("create", "namespace", "here")
    ours = Helm(helm_binary, host.kubeconfig, "tiny", "here")
    await ours.install(write_chart(tmp_path / "chart"), {"runId": "x"}, 60)
    await ours.uninstall(60)
