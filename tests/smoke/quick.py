"""The quickest whole run: one cluster, no Pods, a soak of seconds. For endings, not for verdicts on BigFleet."""

from pathlib import Path

from tests.integration.scaletest.run.runner_cli import Command, Runner
from tests.smoke.profiles import write_profile
from tests.smoke.runs import shared_machine

_PROFILE = {
    "apiVersion": "bigfleet.io/scaletest/v1",
    "kind": "Profile",
    "scale": {"machines": 4, "density": 4},
    "catalog": {"archetypes": "smoke"},
    "topology": {"kwokClusters": 1},
    # Nothing has to be bought, and all that is lost can be replaced.
    "seed": {"configuredFraction": 1, "idleHeadroomFraction": 2, "speculativeMultiplier": 12},
    "loadProfile": {"mode": "cr", "rampSeconds": 5, "soakSeconds": 20, "churnPerMinute": 1.0},
    "rampBudget": "4m",
    "shard": {"failureRatePerSec": 0.04},
    # A busy machine must not fail it.
    "slo": {
        "minObservations": 1,
        "shardConfigurePhaseP99Seconds": 120,
        "operatorNodeStateUpdateP99Seconds": 60,
        "shardCycleDurationP99Seconds": 60,
        "operatorRollupP99Seconds": 30,
        "operatorAckP99Seconds": 60,
        "maxReclaimActionsDuringSoak": 100,
    },
}


def quick_profile(directory: Path) -> Path:
    return write_profile(directory, "quick", _PROFILE)


async def start_quick_run(runner: Runner, *arguments: str) -> Command:
    """Start one; its diary is the runner's."""
    flags = ("--profile", str(quick_profile(runner.home)), "--substrate", str(shared_machine(runner.home)))
    # The self-check reads the control planes too, so they are scraped within the soak.
    return await runner.start_run(*flags, "--set", "prometheus.controlPlaneScrapeSeconds=5", *arguments)
