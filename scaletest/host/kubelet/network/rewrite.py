"""Cluster names and mount paths in text, turned into what they are on this machine.

There is no DNS here, and a mount path is no real place, so a Service name becomes an address and a container's mount
path the directory behind it: in env values, commands, arguments and mounted ConfigMaps. Names that a program builds at
run time, and short ones (`web-0.web`), are not seen; `hosts.py` answers those where the kernel allows it.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

_LABEL = r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
_NAME = re.compile(
    rf"(?P<scheme>https?://)?(?<![\w.-])"
    rf"(?:(?P<pod>{_LABEL})\.)?(?P<service>{_LABEL})\.(?P<namespace>{_LABEL})\.svc(?:\.cluster\.local\.?)?"
    rf"(?::(?P<port>\d+))?(?![\w-]|\.\w)"
)
_DEFAULT_PORTS = {"http://": 80, "https://": 443}


@dataclass(frozen=True)
class ServiceName:
    """`<service>.<namespace>.svc`, or one pod behind it: `<pod>.<service>.<namespace>.svc`."""

    namespace: str
    service: str
    pod: str | None = None

    @property
    def is_apiserver(self) -> bool:
        return self == ServiceName("default", "kubernetes")

    def __str__(self) -> str:
        prefix = f"{self.pod}." if self.pod else ""
        return f"{prefix}{self.service}.{self.namespace}.svc"


@dataclass(frozen=True)
class NameTarget:
    """What is behind a name: an address, and the ports that are not served under their own number."""

    address: str
    moved_ports: Mapping[int, int] = field(default_factory=dict)


Resolve = Callable[[ServiceName], NameTarget | None]


def names_in(text: str) -> set[ServiceName]:
    """The cluster names that occur in a text."""
    return {_name_of(match) for match in _NAME.finditer(text)}


def with_addresses(text: str, targets: Mapping[ServiceName, NameTarget]) -> str:
    """Replace each name that has a target, and each port that is served elsewhere, even one that is only implied."""

    def replacement(match: re.Match[str]) -> str:
        target = targets.get(_name_of(match))
        if target is None:
            return match.group(0)
        scheme = match["scheme"] or ""
        asked = int(match["port"]) if match["port"] else _DEFAULT_PORTS.get(scheme)
        moved = target.moved_ports.get(asked) if asked else None
        port = moved or match["port"]
        return f"{scheme}{target.address}:{port}" if port else f"{scheme}{target.address}"

    return _NAME.sub(replacement, text)


def with_directories(text: str, directories: Mapping[str, Path]) -> str:
    """Replace each mount path, wherever it stands as a whole path or as the beginning of one."""
    if not directories:
        return text
    longest_first = sorted(directories, key=len, reverse=True)
    paths = re.compile(
        # Not in the middle of another path, of a URL (but `file:///mount/path` is one) or behind a shell variable.
        r"(?:(?<![\w.\-/\])}~])|(?<=://))(" + "|".join(map(re.escape, longest_first)) + r")(?![\w.\-])"
    )
    return paths.sub(lambda match: str(directories[match.group(1)]), text)


class Rewriter:
    """Rewrites text for one container: its mounts, and the addresses that its pod is to use for its peers."""

    def __init__(self, directories: Mapping[str, Path], resolve: Resolve) -> None:
        self._directories = directories
        self._resolve = resolve

    def apply(self, text: str) -> str:
        targets = {name: target for name in names_in(text) if (target := self._resolve(name))}
        return with_directories(with_addresses(text, targets), self._directories)


def _name_of(match: re.Match[str]) -> ServiceName:
    return ServiceName(match["namespace"], match["service"], match["pod"])
