"""The shard's settings, named like its flags (docs/reference/engine.md#flags)."""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Literal

from bigfleet.core.labels import check_label_value
from bigfleet.core.machines import CapacityType
from bigfleet.security.choice import check_choice
from bigfleet.security.renewal import Renewal
from bigfleet.shard.inventory.origins import DEFAULT_PROVIDER

_REGISTRY = "registry"


@dataclass(frozen=True)
class IdleHolds:
    """How long a machine that no need wants is kept before it is deleted."""

    on_demand_seconds: float = 300.0
    """Seconds for which a free on-demand machine is kept; inf = for ever."""
    spot_seconds: float = 60.0
    """Seconds for which a free spot machine is kept; inf = for ever."""
    reserved_seconds: float = math.inf
    """Seconds for which a free reserved machine is kept; inf = for ever."""
    bare_metal_seconds: float = math.inf
    """Seconds for which a free bare-metal machine is kept; inf = for ever."""

    def __post_init__(self) -> None:
        for each in fields(self):
            if not getattr(self, each.name) >= 0:
                raise ValueError(f"idle_hold_{each.name} is {getattr(self, each.name):g}, it must be 0 or more, or inf")

    @property
    def by_type(self) -> Mapping[CapacityType, float]:
        return {
            CapacityType.ON_DEMAND: self.on_demand_seconds,
            CapacityType.SPOT: self.spot_seconds,
            CapacityType.RESERVED: self.reserved_seconds,
            CapacityType.BARE_METAL: self.bare_metal_seconds,
        }


@dataclass(frozen=True)
class ShardOptions:
    """Settings of a shard."""

    listen: str = "127.0.0.1:7780"
    """`host:port` of the gRPC services Shard and ShardRead."""
    metrics_addr: str = ":8780"
    """`host:port` of /metrics, /healthz and /readyz; 0 = nowhere."""
    id: str = "shard-0"
    """The shard's name towards provider and coordinator; fencing is per id, so no two shards may share one."""
    data_dir: Path = Path("data")
    """Holds the epoch and the assigned domains; must survive a restart."""
    provider_addr: str = "127.0.0.1:7800"
    """`host:port` of the capacity provider, or `name=host:port,…` of several. The names are those of the quotas; a bare
    address is the provider called `default`. `registry`: all that the coordinators know when the shard starts."""
    unassigned_owns: Literal["everything", "nothing"] = "everything"
    """What the shard owns before the coordinators have given it its first domain: `everything` for a shard that is
    alone with its provider, `nothing` for one of several."""
    coordinator_addr: str | None = None
    """One address or several, comma-separated; None starts no report loop."""
    advertise_addr: str | None = None
    """How others reach this shard; None means `listen`."""
    coordinator_heartbeat_interval_seconds: float = 10.0
    """Seconds between two reports to the coordinator."""
    cycle_interval_seconds: float = 10.0
    """The longest time between two cycles; roll-ups and state changes wake one sooner."""
    list_page_size: int = 10_000
    """Machines per answer of the provider's List, so that no fleet outgrows a message; 0 asks for all at once."""
    incremental_reconcile: bool = True
    """Ask for what changed since the last List; otherwise every cycle lists everything."""
    full_reconcile_interval_seconds: float = 600.0
    """How often everything is listed all the same, one page per cycle: not every provider tells of what has gone."""
    execute_concurrency: int = 1
    """Provider calls at the same time."""
    max_actions_per_cycle: int = 0
    """Actions dispatched by one cycle, the rest waits for the next (at once); 0 = unlimited."""
    available_capacity_interval_seconds: float = 5.0
    """The same hint goes to a cluster at most this often."""
    reconnect_seconds: float = 10.0
    """How long a Bootstrap whose operator has hung up waits for it to come back; then its machine is Idle again."""
    metrics_warmup_cycles: int = 0
    """Cycles at the start that are left out of the cycle histograms."""
    phase_attribution_log: bool = field(default_factory=lambda: os.environ.get("BIGFLEET_PHASEDUMP") == "1")
    """Log where every 20th cycle's time went; BIGFLEET_PHASEDUMP=1 in the environment asks for it too."""
    reclaim_cap_fraction: float = 0.05
    """Reclaims of a cluster within any `cap_window_seconds`, as a part of its Configured machines; 0 = no cap."""
    release_cap_fraction: float = 0.05
    """Deletes within any `cap_window_seconds`, as a part of all bought machines that have a hold; 0 = no cap."""
    cap_window_seconds: float = 10.0
    """The window of both caps: 0.05 of it is 30 % a minute, however fast cycles come."""
    reclaim_after_seconds: float = 30.0
    """How long a machine must have been excess before it is reclaimed: the time that evicted Pods take to come back."""
    idle_hold: IdleHolds = field(default_factory=IdleHolds)
    empty_rollup_guard: bool = True
    """Hold a roll-up that drops nearly all demand until it was confirmed twice."""
    actuation_paused: bool = False
    """The kill switch: decide everything, execute nothing."""
    dry_run: bool = False
    """Shadow mode: decide and log everything, execute nothing."""
    audit_log: Path | None = None
    """One JSON line per action is appended here."""
    node_name_prefix: str = ""
    """A node's name is this prefix and its machine's id."""
    tls_dir: Path | None = None
    """The shard's certificate, key and CA."""
    plaintext: bool = False
    """Without any TLS, and so without any check of the callers; only for trying things out."""
    renewal: Renewal = field(default_factory=Renewal)

    def __post_init__(self) -> None:
        check_choice(self.tls_dir, self.plaintext)
        _ = self.providers
        if self.asks_registry and not self.coordinator_addr:
            raise ValueError("provider_addr is `registry`: give coordinator_addr too")
        if not self.id:
            raise ValueError("id is empty")
        if self.execute_concurrency < 1:
            raise ValueError(f"execute_concurrency is {self.execute_concurrency}, it must be at least 1")
        for name in ("reclaim_cap_fraction", "release_cap_fraction"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is {getattr(self, name):g}, it must be in [0, 1]")
        for name in (
            "cap_window_seconds",
            "cycle_interval_seconds",
            "coordinator_heartbeat_interval_seconds",
            "full_reconcile_interval_seconds",
        ):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name):g}, it must be above 0")
        for name in (
            "list_page_size",
            "max_actions_per_cycle",
            "metrics_warmup_cycles",
            "available_capacity_interval_seconds",
            "reconnect_seconds",
            "reclaim_after_seconds",
        ):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name):g}, it must not be negative")

    @property
    def coordinator_addresses(self) -> list[str]:
        return [each.strip() for each in (self.coordinator_addr or "").split(",")]

    @property
    def asks_registry(self) -> bool:
        """Whether the coordinators say which providers there are."""
        return self.provider_addr == _REGISTRY

    @property
    def providers(self) -> Mapping[str, str]:
        """Each provider's address, by its name, as far as the options say it. Raises ValueError."""
        if self.asks_registry:
            return {}
        found: dict[str, str] = {}
        for part in self.provider_addr.split(","):
            name, named, address = part.strip().rpartition("=")
            name = name if named else DEFAULT_PROVIDER
            try:
                check_label_value(name)
            except ValueError as error:
                raise ValueError(f"provider_addr: {error}") from error
            if not address:
                raise ValueError(f"provider_addr: provider {name!r} has no address")
            if name in found:
                raise ValueError(f"provider_addr names provider {name!r} twice: write name=host:port for each")
            found[name] = address
        return found
