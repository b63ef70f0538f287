"""The command lines of both control planes, flag by flag: `make golden` stores a wanted change."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from scaletest.cluster.control_plane import commands as kwok_cluster
from scaletest.components import scheduler
from scaletest.components.component import Plane
from scaletest.components.pki import Pki
from scaletest.host import commands as embedded
from scaletest.host.addresses import Network
from scaletest.supervise.command import Command
from tests.golden.rendering import compare_with_stored

TOOLS = ("etcd", "kine", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")


def told(command: Command) -> str:
    """One process as text. Flags are sorted and `--flag` is `--flag=true`: to the programs both are the same."""
    binary, *arguments = command.argv
    flags = sorted(argument if "=" in argument else f"{argument}=true" for argument in arguments)
    around = [f"{key}={value}" for key, value in sorted(command.env.items())]
    lowered = [f"nice {command.nice}"] if command.nice else []
    return "\n  ".join([" ".join([*around, *lowered, binary]), *flags])


def in_place(lines: Sequence[str], directory: Path) -> str:
    return "\n\n".join(lines).replace(str(directory), "DIRECTORY") + "\n"


def test_the_embedded_host_starts_what_was_stored(tmp_path: Path) -> None:
    plane = Plane("127.99.0.1", tmp_path, Pki(tmp_path / "pki", tmp_path / "kubeconfig"))
    components = [
        embedded.storage(plane),
        embedded.api(plane, Network(99)),
        embedded.controllers(plane),
        embedded.scheduling(plane),
    ]
    shown = [told(component.command(str(tmp_path / "tools" / component.name))) for component in components]
    compare_with_stored("commands/embedded-host.txt", in_place(shown, tmp_path))


@pytest.mark.parametrize("storage", kwok_cluster.STORAGES)
def test_a_kwok_cluster_starts_what_was_stored(storage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in TOOLS:
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv("SCALETEST_TOOLS", str(tmp_path))
    plane = Plane("127.9.8.7", tmp_path, Pki(tmp_path / "certs", tmp_path / "admin.kubeconfig"))
    packing = kwok_cluster.scheduling_settings(tmp_path / "scheduler.yaml", pod_max_backoff_seconds=2)
    components = [
        kwok_cluster.storage(plane, storage),
        kwok_cluster.api(plane, storage, 900, ("--v=4",)),
        kwok_cluster.kubelets(plane, 40),
        kwok_cluster.controllers(plane),
        kwok_cluster.scheduling(plane, packing),
    ]
    shown = [told(kwok_cluster.command(component)) for component in components]
    configuration = yaml.safe_dump(scheduler.configuration(plane, packing))
    stages = str(kwok_cluster.KWOK_CONFIG)
    shown = [line.replace(stages, "STAGES") for line in shown]
    compare_with_stored(f"commands/kwok-cluster-{storage}.txt", in_place([*shown, configuration.rstrip()], tmp_path))
