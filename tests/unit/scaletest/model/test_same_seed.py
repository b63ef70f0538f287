"""Two runs with one seed create the same objects at the same times; another seed creates others."""

from typing import Any

import pytest

from scaletest.cluster.workloads.manifests import manifest_of
from scaletest.model.demand.draw import draw_demand
from scaletest.model.demand.happenings import happenings, surplus
from tests.unit.plans import shipped_plan


def everything_created(profile: str, seed: int) -> list[Any]:
    """What the load-drivers of two clusters send to their apiservers, and when."""
    load = shipped_plan(profile).load_profile.model_copy(update={"seed": seed})
    story: list[Any] = []
    for ordinal in range(2):
        drawn = draw_demand(load.archetypes, load.target, load.seed, ordinal).workloads()
        story += [manifest_of(workload) for workload in drawn]
        story += [manifest_of(workload, steady=True) for workload in surplus(load, ordinal)]
        for happening in happenings(load, ordinal):
            created = [manifest_of(workload, steady=True) for workload in happening.created]
            story.append((happening.at_seconds, [workload.name for workload in happening.deleted], created))
    return story


@pytest.mark.parametrize("profile", ["smoke", "dev-50", "oscillation-5k"])
def test_one_seed_one_story(profile: str) -> None:
    first = everything_created(profile, 7)
    assert first == everything_created(profile, 7)
    assert first != everything_created(profile, 8)
