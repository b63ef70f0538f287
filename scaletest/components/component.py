"""What every component of a control plane has: a command line, a place, and endpoints for its health and metrics."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from scaletest.components.pki import Pki
from scaletest.supervise.command import Command


@dataclass(frozen=True)
class Plane:
    """One control plane: the address that everything in it binds, its directory and its PKI."""

    address: str
    # Data that goes away with the control plane.
    directory: Path
    pki: Pki

    def socket_address(self, port: int) -> str:
        """`host:port`, as in a URL."""
        return f"[{self.address}]:{port}" if ":" in self.address else f"{self.address}:{port}"

    def url(self, port: int) -> str:
        return f"https://{self.socket_address(port)}"


@dataclass(frozen=True)
class Component:
    """One process of a control plane. `env` is added to what its starter gives it; `nice` lowers its share of a CPU."""

    name: str
    arguments: tuple[str, ...]
    # Answers 200 when the component can do its work; empty: it cannot be asked.
    health_url: str = ""
    # Empty: it has none.
    metrics_url: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    nice: int = 0

    def command(self, binary: str) -> Command:
        return Command(self.name, (binary, *self.arguments), self.env, self.nice)


def rendered(flags: Mapping[str, object]) -> tuple[str, ...]:
    """`--flag=value` for each; one that is None, or an empty list, stays at the program's own default."""
    return tuple(f"--{flag}={_text(value)}" for flag, value in flags.items() if value is not None and value != ())


def switched_off(names: tuple[str, ...]) -> tuple[str, ...]:
    """The way in which Kubernetes' programs are told to leave features and APIs out."""
    return tuple(f"{name}=false" for name in names)


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)
