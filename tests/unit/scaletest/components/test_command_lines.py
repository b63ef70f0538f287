"""The command lines of both control planes, flag by flag: `make golden` stores a wanted change."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest
import yaml

from scaletest.cluster.control_plane import commands as kwok_cluster
from scaletest.cluster.control_plane.pki import Pki
from scaletest.host import commands as embedded
from scaletest.host.addresses import Network
from scaletest.host.credentials import issue_credentials
from tests.golden.rendering import compare_with_stored

TOOLS = ("etcd", "kine", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")


def told(name: str, arguments: Iterable[str], env: Mapping[str, str] | None = None, nice: int = 0) -> str:
    """One process as text. Flags are sorted and `--flag` is `--flag=true`: to the programs both are the same."""
    flags = sorted(argument if "=" in argument else f"{argument}=true" for argument in arguments)
    around = [f"{key}={value}" for key, value in sorted((env or {}).items())] + ([f"nice {nice}"] if nice else [])
    return "\n  ".join([" ".join([*around, name]), *flags])


def in_place(lines: Sequence[str], directory: Path) -> str:
    return "\n\n".join(lines).replace(str(directory), "DIRECTORY") + "\n"


def test_the_embedded_host_starts_what_was_stored(tmp_path: Path) -> None:
    made = issue_credentials(tmp_path / "pki", Network(99), tmp_path / "kubeconfig")
    tools = tmp_path / "tools"
    lines = [
        embedded.etcd(made, tools, tmp_path / "etcd"),
        embedded.apiserver(made, tools),
        embedded.controller_manager(made, tools),
        embedded.scheduler(made, tools),
    ]
    shown = [told(binary, arguments) for binary, *arguments in lines]
    compare_with_stored("commands/embedded-host.txt", in_place(shown, tmp_path))


@pytest.mark.parametrize("storage", kwok_cluster.STORAGES)
def test_a_kwok_cluster_starts_what_was_stored(storage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in TOOLS:
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv("SCALETEST_TOOLS", str(tmp_path))
    site = kwok_cluster.Site("127.9.8.7", tmp_path, Pki(tmp_path / "certs", tmp_path / "admin.kubeconfig"))
    commands = [
        kwok_cluster.storage(site, storage),
        kwok_cluster.apiserver(site, storage, 900, ("--v=4",)),
        kwok_cluster.kwok(site, 40),
        kwok_cluster.controller_manager(site),
        kwok_cluster.scheduler(site, tmp_path / "scheduler.yaml"),
    ]
    shown = [told(command.argv[0], command.argv[1:], command.env, command.nice) for command in commands]
    configuration = yaml.safe_dump(kwok_cluster.scheduler_configuration(site, pod_max_backoff_seconds=2))
    stages = str(kwok_cluster.KWOK_CONFIG)
    shown = [line.replace(stages, "STAGES") for line in shown]
    compare_with_stored(f"commands/kwok-cluster-{storage}.txt", in_place([*shown, configuration.rstrip()], tmp_path))
