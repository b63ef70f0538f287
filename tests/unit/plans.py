"""Plans that several tests look at."""

from functools import cache

from scaletest.model.plan import Plan, make_plan
from scaletest.model.reading import read_profile, read_substrate


@cache
def smoke_plan(soak_seconds: float = 60) -> Plan:
    profile, catalog, profile_name = read_profile("smoke")
    substrate, substrate_name = read_substrate("embedded")
    return make_plan(profile, profile_name, catalog, substrate, substrate_name, soak_seconds=soak_seconds)
