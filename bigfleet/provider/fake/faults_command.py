"""`bigfleet faults`: shows, sets and strikes the faults of a running fake provider."""

import json
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

import grpc
from google.protobuf.json_format import MessageToDict

from bigfleet.api.v1alpha1 import faults_pb2 as pb
from bigfleet.api.v1alpha1 import faults_pb2_grpc
from bigfleet.errors import BigFleetError, ExitStatus
from bigfleet.security import channel
from bigfleet.security.choice import check_choice

_CALL_SECONDS = 10.0
_STRIKES = {"lose": pb.STRIKE_LOSE, "vanish": pb.STRIKE_VANISH, "interrupt": pb.STRIKE_INTERRUPT}


class FaultsRefused(BigFleetError):
    """The provider did not take the call."""

    exit_code = ExitStatus.FAILED


@dataclass(frozen=True)
class FaultsOptions:
    """Shows the faults of a fake provider, after setting those that are given; the others stay as they are."""

    target: str
    """`host:port` of the provider."""
    tls_dir: Path | None = None
    """Directory of the identity `bigfleet://admin`."""
    plaintext: bool = False
    """No TLS: the provider must have been told the same."""
    off: bool = False
    """Begin with no fault at all instead of those that hold now."""
    refuse_configure: bool | None = None
    """Every Configure is answered UNAVAILABLE."""
    create_failure_ratio: float | None = None
    """Share of Creates that ends Failed."""
    configure_failure_ratio: float | None = None
    """Share of Configures that ends Failed."""
    drain_failure_ratio: float | None = None
    """Share of Drains that ends Failed."""
    delete_failure_ratio: float | None = None
    """Share of Deletes that ends Failed."""
    stock_out_zones: tuple[str, ...] = ()
    """Zones whose Creates are answered UNAVAILABLE; `*` is every zone."""
    slow_factor: float | None = None
    """Every transition takes this many times as long."""
    spot_interruption_multiplier: float | None = None
    """SPOT machines are taken back at this many times the probability that they declare."""
    vanish_rate_per_sec: float | None = None
    """Configured machines that are gone for good, per second and machine."""
    strike: Literal["lose", "vanish", "interrupt"] | None = None
    """Take machines away at once: Failed, gone for good, or SPOT that is taken back."""
    count: int | None = None
    """How many machines a strike takes; None: all that --machine names, else one."""
    share: float | None = None
    """Which part of the matching machines it takes instead."""
    zone: tuple[str, ...] = ()
    """A strike takes machines of these zones only."""
    cluster: tuple[str, ...] = ()
    """A strike takes machines of these clusters only."""
    machine: tuple[str, ...] = ()
    """A strike takes these machines only; without it, Configured ones."""

    def __post_init__(self) -> None:
        check_choice(self.tls_dir, self.plaintext)
        if self.slow_factor is not None and not self.slow_factor > 0:
            raise ValueError(f"--slow-factor {self.slow_factor:g}: it must be above 0")
        if not self.strike:
            for name in ("count", "share", "zone", "cluster", "machine"):
                if getattr(self, name):
                    raise ValueError(f"--{name} says what a strike takes: --strike is missing")
        if self.count is not None and self.share is not None:
            raise ValueError("--count and --share: which one?")
        if self.count is not None and self.count < 1:
            raise ValueError(f"--count {self.count}: a strike takes one machine at least")
        if self.share is not None and not 0 < self.share <= 1:
            raise ValueError(f"--share {self.share:g}: it must be above 0, and 1 at most")


async def run(options: FaultsOptions) -> None:
    """Do what was asked; the faults that hold and the machines that were struck go to stdout as JSON."""
    async with channel(options.target, options.tls_dir, "provider") as provider:
        stub = faults_pb2_grpc.FaultInjectionStub(provider)
        try:
            settings = pb.FaultSettings()
            if not options.off:
                settings = await stub.GetFaults(pb.GetFaultsRequest(), timeout=_CALL_SECONDS)
            wanted = merged(settings, options)
            if options.off or wanted != settings:
                settings = await stub.SetFaults(wanted, timeout=_CALL_SECONDS)
            shown: dict[str, Any] = {"faults": MessageToDict(settings, preserving_proto_field_name=True)}
            if options.strike:
                answer = await stub.Strike(_strike(options), timeout=_CALL_SECONDS)
                shown["struck"] = list(answer.machine_ids)
        except grpc.aio.AioRpcError as error:
            raise FaultsRefused(f"{options.target}: {error.code().name}: {error.details()}") from error
    sys.stdout.write(json.dumps(shown, indent=2) + "\n")


def merged(settings: pb.FaultSettings, options: FaultsOptions) -> pb.FaultSettings:
    """The settings with what was given on the command line."""
    result = pb.FaultSettings()
    result.CopyFrom(settings)
    for field in fields(options):
        value = getattr(options, field.name)
        if value in (None, ()) or field.name not in pb.FaultSettings.DESCRIPTOR.fields_by_name:
            continue
        if field.name == "stock_out_zones":
            del result.stock_out_zones[:]
            result.stock_out_zones.extend(value)
        else:
            setattr(result, field.name, value)
    return result


def _strike(options: FaultsOptions) -> pb.StrikeRequest:
    return pb.StrikeRequest(
        kind=_STRIKES[options.strike or "lose"],
        count=0 if options.share else options.count or len(options.machine) or 1,
        share=options.share or 0.0,
        zones=options.zone,
        clusters=options.cluster,
        machine_ids=options.machine,
    )
