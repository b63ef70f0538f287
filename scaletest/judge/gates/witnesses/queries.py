"""What the queries of witnesses have in common: whose figures they are, and how far back they look."""

from scaletest.judge.gates.figures import by_cluster
from scaletest.model.plan import Plan

# Of the load-drivers, and of the fake provider.
WITNESS = "scaletest_witness_"
LEDGER = "bigfleet_provider_ledger_"
# An interval, and what a scrape may take.
NEXT_SCRAPE_SECONDS = 7
# Two scrapes: a moment that two clocks see apart is no finding.
OUTSIDE_SECONDS = 10

WAITS_FOR_A_CORE = "a process that waits for a core is late"


def worst_age(metric: str) -> str:
    return f"max by (cluster) ({by_cluster(f'max_over_time({WITNESS}{metric}_oldest_seconds[{{w}}])')})"


def edge_of(metric: str, extreme: str, edge: str, seconds: int, prefix: str = WITNESS) -> str:
    """Of the last so many seconds, and of the next scrape: a claim may have been scraped after its witness."""
    window = f"[{seconds + NEXT_SCRAPE_SECONDS}s] offset -{NEXT_SCRAPE_SECONDS}s"
    return f'{extreme}_over_time({prefix}{metric}{{edge="{edge}"}}{window})'


def without_pods(plan: Plan) -> str:
    without = plan.profile.load_profile.mode == "cr"
    return "CapacityRequests exist without Pods here (BF-0017)" if without else ""
