"""How many slots of each provider's region this shard may take, kept on its disk; a Create beyond that is not sent."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
import structlog

from bigfleet.core.machines import Machine
from bigfleet.errors import BigFleetError, ExitStatus
from bigfleet.shard.inventory.inventory import Inventory
from bigfleet.shard.inventory.machines import View
from bigfleet.shard.inventory.slots import Place
from bigfleet.shard.metrics import ShardMetrics
from bigfleet.shard.provider.epoch import write_durably

_FILE = "quotas.json"

log = structlog.get_logger()


class CorruptQuotas(BigFleetError):
    """The quota file can't be read. Starting anyway could take more than the shard may have."""

    exit_code = ExitStatus.WRONG_USE


class QuotaSlice(msgspec.Struct, frozen=True, order=True):
    """Slots of a provider's region that the shard may take."""

    provider: str
    region: str
    slots: int

    def __str__(self) -> str:
        return f"{self.provider}/{self.region or '-'} ({self.slots} slots)"


class _Stored(msgspec.Struct, frozen=True):
    slices: tuple[QuotaSlice, ...] = ()
    regions: dict[str, str] = msgspec.field(default_factory=dict)
    """Of providers, for machines that have no region label."""


@dataclass(frozen=True)
class FullSlice:
    """A slice that has no slot left."""

    slice: QuotaSlice
    taken: int


class Quotas:
    """A region without a slice of ours is not limited: the coordinators send a slice of 0 where others have one."""

    def __init__(self, data_dir: Path, inventory: Inventory, metrics: ShardMetrics) -> None:
        self._path = data_dir / _FILE
        self._inventory = inventory
        self._metrics = metrics
        self._stored = _Stored()
        self._by_region: Mapping[Place, QuotaSlice] = {}
        self._full: frozenset[QuotaSlice] = frozenset()
        self._take(_read(self._path))

    def replace(self, slices: Iterable[QuotaSlice], regions: Mapping[str, str]) -> None:
        """The coordinators' word on all of our slices, and on the regions of providers."""
        stored = _Stored(tuple(sorted(slices)), dict(sorted(regions.items())))
        if stored == self._stored:
            return
        write_durably(self._path, msgspec.json.encode(stored).decode())
        self._take(stored)
        log.info("quotas changed", slices=[str(one) for one in stored.slices])

    def _take(self, stored: _Stored) -> None:
        self._stored = stored
        self._by_region = {(one.provider, one.region): one for one in stored.slices}
        if stored.slices:
            self._inventory.slots.watch(self._inventory.machines.values())
        self._metrics.quota_slots.clear()
        self._metrics.quota_taken.clear()
        for one in stored.slices:
            self._metrics.quota_refusals.labels(one.provider, one.region)
        self.publish()

    def refuse(self, machine: Machine) -> FullSlice | None:
        """The slice that has no slot for a Speculative machine, which is counted as refused."""
        if not self._by_region:
            return None
        provider, label = self._inventory.slots.place(machine)
        one = self._by_region.get((provider, label or self._stored.regions.get(provider, "")))
        if one is None or (taken := self._taken(one)) < one.slots:
            return None
        self._metrics.quota_refusals.labels(one.provider, one.region).inc()
        return FullSlice(one, taken)

    def full(self) -> list[FullSlice]:
        """Slices without a slot left."""
        return [FullSlice(one, taken) for one in self._stored.slices if (taken := self._taken(one)) >= one.slots]

    def shape_view(self, view: View) -> None:
        """Take the Speculative machines of full slices out of the engine's view: it looks elsewhere."""
        full = self.full()
        for each in full:
            for place in self._places(each.slice):
                for machine_id in self._inventory.slots.free(place):
                    del view[machine_id]
            if each.slice not in self._full:
                log.warning(
                    "quota reached",
                    provider=each.slice.provider,
                    region=each.slice.region,
                    slots=each.slice.slots,
                    taken=each.taken,
                )
        self._full = frozenset(each.slice for each in full)

    def publish(self) -> None:
        """In the metrics."""
        for one in self._stored.slices:
            self._metrics.quota_slots.labels(one.provider, one.region).set(one.slots)
            self._metrics.quota_taken.labels(one.provider, one.region).set(self._taken(one))

    def _taken(self, one: QuotaSlice) -> int:
        return sum(map(self._inventory.slots.taken, self._places(one)))

    def _places(self, one: QuotaSlice) -> list[Place]:
        """Of machines with the region's label, and of those without one if it is their provider's."""
        places = [(one.provider, one.region)] if one.region else []
        if self._stored.regions.get(one.provider, "") == one.region:
            places.append((one.provider, ""))
        return places


def _read(path: Path) -> _Stored:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Stored)
    except FileNotFoundError:
        return _Stored()
    except msgspec.DecodeError as error:
        raise CorruptQuotas(f"{path} does not hold the shard's quotas: {error}") from error
