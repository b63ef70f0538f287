"""Normalization: gangs that fit on one machine are plain demand for such machines (spec/engine.md §3.8, ADR-0041)."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from bigfleet.core.machines import MachineState
from bigfleet.core.needs import Need
from bigfleet.core.requirements import Profile
from bigfleet.core.vectors import positive, scaled
from tests.oracle.snapshot import Snapshot

_Value = tuple[tuple[str, int], ...]


def fold(needs: Iterable[Need], snapshot: Snapshot) -> list[Need]:
    """§3.8 "Foldable Needs with equal (cluster, profile-without-Same fingerprint, aggregate value) merge".

    "Output order: pass-through first (input order), then folded sorted by (cluster, fp, aggregate)."
    """
    passed: list[Need] = []
    classes: dict[tuple[str, str, _Value], list[Need]] = {}
    for need in needs:
        if need.profile.same is None:
            passed.append(need)
            continue
        plain = need.profile.without_same()
        if _one_machine_takes_all(need, plain, snapshot):
            classes.setdefault((need.cluster, plain.fingerprint, _value(need)), []).append(need)
        else:
            passed.append(need)
    return passed + [_merged(classes[key]) for key in sorted(classes)]


def _value(need: Need) -> _Value:
    """§3.8 "aggregate value": what compares and sorts. A dimension of zero asks for nothing (§3.1)."""
    return tuple(sorted(positive(need.aggregate).items()))


def _one_machine_takes_all(gang: Need, plain: Profile, snapshot: Snapshot) -> bool:
    """§3.8 "foldable iff some machine matching its profile covers its whole aggregate".

    "The cluster's own Configured/Configuring, or any Idle/Speculative in the shard." A machine being created for the
    folded gang counts too (ADR 6): otherwise a gang whose last possible host is on its way would unfold, lose sight of
    that host and acquire others.
    """
    whole = snapshot.usable(gang.profile, positive(gang.aggregate))
    hosts = [
        *snapshot.bound(gang.cluster),
        *snapshot.in_state(MachineState.IDLE),
        *snapshot.in_state(MachineState.SPECULATIVE),
        *snapshot.creating(plain, group=""),
    ]
    return any(machine.id in whole for machine in hosts)


def _merged(gangs: Sequence[Need]) -> Need:
    """§3.8 "Same stripped, aggregate = one × count, min_unit = one gang's aggregate, earliest arrival, no group"."""
    one = gangs[0]
    return replace(
        one,
        profile=one.profile.without_same(),
        aggregate=scaled(positive(one.aggregate), len(gangs)),
        min_unit=positive(one.aggregate),
        group="",
        arrival=min(gang.arrival for gang in gangs),
    )
