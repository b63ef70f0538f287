"""A pod's own `/etc/hosts`: names answered for it alone, kept current while its containers run."""

import os
from collections.abc import Iterable
from pathlib import Path

from bigfleet.kube import Object
from scaletest.host.kubelet.network.names import PodNames

_MACHINE_HOSTS = Path("/etc/hosts")


def host_name(pod: Object) -> str:
    """What the containers of a pod take for the machine's name."""
    return str(pod["spec"].get("hostname") or pod["metadata"]["name"])[:63].rstrip("-.")


def hosts_text(pod: Object, address: str, names: PodNames, machine: str) -> str:
    """The file: the machine's own lines, the pod itself, its `hostAliases`, and all that the cluster has names for."""
    lines = [_line(address, [host_name(pod)])]
    lines += [_line(alias["ip"], alias.get("hostnames") or []) for alias in pod["spec"].get("hostAliases") or []]
    lines += [_line(*line) for line in names.host_lines(pod)]
    return "\n".join([machine.rstrip("\n"), *lines, ""])


def write_hosts(path: Path, pod: Object, address: str, names: PodNames) -> None:
    """Write a pod's hosts file, in place: it is mounted into containers, which hold on to this very file."""
    machine = _MACHINE_HOSTS.read_text() if _MACHINE_HOSTS.exists() else ""
    content = hosts_text(pod, address, names, machine).encode()
    if path.exists() and path.read_bytes() == content:
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        os.pwrite(descriptor, content, 0)
        os.ftruncate(descriptor, len(content))
    finally:
        os.close(descriptor)


def _line(address: str, names: Iterable[str]) -> str:
    return f"{address}\t{' '.join(names)}"
