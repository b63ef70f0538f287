"""Cluster names and mount paths in text, turned into what they are on this machine.

There is no DNS and no mount namespace here, so a Service name becomes an address and a container's mount path the
directory behind it: in env values, commands, arguments and mounted ConfigMaps. Names that a program builds at run
time, and short names (`web-0.web`), are not seen.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

_LABEL = r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
_NAME = re.compile(
    rf"(?P<scheme>https://)?(?<![\w.-])"
    rf"(?:(?P<pod>{_LABEL})\.)?(?P<service>{_LABEL})\.(?P<namespace>{_LABEL})\.svc(?:\.cluster\.local\.?)?"
    rf"(?::(?P<port>\d+))?(?![\w-]|\.\w)"
)


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


Resolve = Callable[[ServiceName], Awaitable[str | None]]


def names_in(text: str) -> set[ServiceName]:
    """The cluster names that occur in a text."""
    return {_name_of(match) for match in _NAME.finditer(text)}


def with_addresses(text: str, addresses: Mapping[ServiceName, str], apiserver_port: int) -> str:
    """Replace each name that has an address. The apiserver's 443 becomes the port that it really has."""

    def replacement(match: re.Match[str]) -> str:
        name = _name_of(match)
        address = addresses.get(name)
        if address is None:
            return match.group(0)
        scheme, port = match["scheme"] or "", match["port"]
        if name.is_apiserver and (port == "443" or (scheme and not port)):
            port = str(apiserver_port)
        return f"{scheme}{address}:{port}" if port else f"{scheme}{address}"

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

    def __init__(self, directories: Mapping[str, Path], resolve: Resolve, apiserver_port: int) -> None:
        self._directories = directories
        self._resolve = resolve
        self._apiserver_port = apiserver_port

    async def apply(self, text: str) -> str:
        addresses: dict[ServiceName, str] = {}
        for name in names_in(text):
            address = await self._resolve(name)
            if address:
                addresses[name] = address
        return with_directories(with_addresses(text, addresses, self._apiserver_port), self._directories)


def _name_of(match: re.Match[str]) -> ServiceName:
    return ServiceName(match["namespace"], match["service"], match["pod"])
