"""Normalization: gangs that fit on one machine are plain demand for such machines (spec/engine.md §3.8, ADR-0041)."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain

from bigfleet.core.needs import Need
from bigfleet.core.requirements import Profile
from bigfleet.core.vectors import positive, scaled
from bigfleet.engine.snapshot import Snapshot

_Value = tuple[tuple[str, int], ...]


def fold(needs: Iterable[Need], snapshot: Snapshot) -> list[Need]:
    """The needs with every foldable gang merged into a plain need (spec/engine.md §3.8).

    What passes through comes first, in the order given; then the folded, by cluster, fingerprint and aggregate.
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
    """An aggregate as something that compares and sorts."""
    return tuple(sorted(positive(need.aggregate).items()))


def _one_machine_takes_all(gang: Need, plain: Profile, snapshot: Snapshot) -> bool:
    """Whether a machine that matches the gang covers its aggregate: one of its cluster's, or a free one (§3.8).

    A machine being created for the folded gang counts too, which the spec does not say: otherwise a gang whose last
    possible host is on its way would unfold, lose sight of that host and acquire others.
    """
    whole = snapshot.usable(gang.profile, positive(gang.aggregate))
    if not whole.isdisjoint(snapshot.free_by_kind):
        return True
    own = chain(snapshot.bound(gang.cluster), snapshot.creating(plain, ""))
    return any(snapshot.kind(machine) in whole for machine in own)


def _merged(gangs: Sequence[Need]) -> Need:
    """Equal gangs as one plain need, each of whose machines takes at least one whole gang (spec/engine.md §3.8)."""
    one = gangs[0]
    return replace(
        one,
        profile=one.profile.without_same(),
        aggregate=scaled(positive(one.aggregate), len(gangs)),
        min_unit=positive(one.aggregate),
        group="",
        arrival=min(gang.arrival for gang in gangs),
    )
