"""Normalization: gangs that fit on one machine are plain demand for such machines.

See docs/reference/engine.md#folding.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from bigfleet.core.machines import MachineState
from bigfleet.core.needs import Need
from bigfleet.core.requirements import NeedProfile
from bigfleet.core.vectors import positive, scaled
from tests.oracle.snapshot import Snapshot

_Value = tuple[tuple[str, int], ...]


def fold(needs: Iterable[Need], snapshot: Snapshot) -> list[Need]:
    """Equal gangs that one machine could take are merged (docs/reference/engine.md#folding).

    What is not folded comes first, as it was given; then the merged ones by cluster, fingerprint and aggregate.
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
    """The aggregate, to compare and to sort by: a dimension of zero asks for nothing.

    See docs/reference/engine.md#vectors.
    """
    return tuple(sorted(positive(need.aggregate).items()))


def _one_machine_takes_all(gang: Need, plain: NeedProfile, snapshot: Snapshot) -> bool:
    """Whether a bound machine of the cluster, or a free one, covers the whole gang (docs/reference/engine.md#folding).

    A machine being created for the folded gang counts too (ADR-6): otherwise a gang whose last possible host is on its
    way would unfold, lose sight of that host and acquire others.
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
    """Plain demand for machines that hold one gang each (docs/reference/engine.md#folding)."""
    one = gangs[0]
    return replace(
        one,
        profile=one.profile.without_same(),
        aggregate=scaled(positive(one.aggregate), len(gangs)),
        min_unit=positive(one.aggregate),
        group="",
        arrival=min(gang.arrival for gang in gangs),
    )
