"""`make dashboards`: stores the dashboard with the bars of the ladder; a run provisions its own, with its profile's."""

from pathlib import Path

from scaletest.model.documents.substrate import Host
from scaletest.model.files.reading import read_profile, read_substrate
from scaletest.model.plan import Plan, make_plan
from scaletest.project import PROJECT
from scaletest.report.dashboard.panels import UID, dashboard_text

STORED = PROJECT / "dashboards" / f"{UID}.json"


def ladder_plan() -> Plan:
    """The rung whose bars are the defaults."""
    profile, catalog, profile_name = read_profile("5k")
    substrate, substrate_name = read_substrate("example-fat-host")
    host = substrate.host or Host(v_cpu=1, memory_gi_b=1)
    return make_plan(profile, profile_name, catalog, substrate, substrate_name, this_host=host)


def store(path: Path = STORED) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(dashboard_text(ladder_plan()))


if __name__ == "__main__":
    store()
