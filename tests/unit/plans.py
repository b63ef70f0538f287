"""Plans that several tests look at."""

from functools import cache

from scaletest.model.documents.substrate import Host
from scaletest.model.files.reading import read_profile, read_substrate, shipped
from scaletest.model.plan import Plan, make_plan
from scaletest.run.steps.preflight import refusals_of, refuse

SHIPPED = tuple(path.stem for path in shipped("profile"))
LAPTOP = Host(v_cpu=2, memory_gi_b=24)


@cache
def shipped_plan(
    profile: str, substrate: str = "embedded", soak_seconds: float | None = None, seed: int | None = None
) -> Plan:
    """What ships under these names, worked out for a small laptop."""
    profile_model, catalog, profile_name = read_profile(profile)
    substrate_model, substrate_name = read_substrate(substrate)
    return make_plan(
        profile_model,
        profile_name,
        catalog,
        substrate_model,
        substrate_name,
        this_host=LAPTOP,
        soak_seconds=soak_seconds,
        seed=seed,
    )


def smoke_plan(soak_seconds: float = 60) -> Plan:
    return shipped_plan("smoke", soak_seconds=soak_seconds)


def refuse_the_impossible(plan: Plan) -> None:
    """Raises UsageError, with all reasons, for a plan that no run could bring to a verdict."""
    refuse(refusals_of(plan))
