"""Helm against the embedded host: a chart comes and goes as on any cluster."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from scaletest.host.embedded import EmbeddedHost
from tests.integration.embedded_host import Kubectl

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
