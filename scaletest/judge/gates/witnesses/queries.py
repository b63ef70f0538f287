"""What the queries of witnesses have in common: whose figures they are, and how far back they look."""

from scaletest.judge.gates.figures import by_cluster
from scaletest.model.plan import Plan

# Of the load-drivers, and of the fake provider.
WITNESS = "scaletest_witness_"
LEDGER = "bigfleet_provider_ledger_"
NODE_CREATOR = "bigfleet_scaletest_node_creator_"
# An interval, and what a scrape may take.
_NEXT_SCRAPE_SECONDS = 7
# Two scrapes: a moment that two clocks see apart is no finding.
OUTSIDE_SECONDS = 10

WAITS_FOR_A_CORE = "a process that waits for a core is late"


def worst_of_clusters(metric: str) -> str:
    """The highest value in the window of a figure of the kwok-cluster pods, by cluster."""
    return f"max by (cluster) ({by_cluster(f'max_over_time({metric}[{{w}}])')})"


def worst_age(metric: str) -> str:
    return worst_of_clusters(f"{WITNESS}{metric}_oldest_seconds")


def lately(seconds: int) -> str:
    """A range of the last so many seconds, and of the next scrape: a claim may have been scraped after its witness."""
    return f"[{seconds + _NEXT_SCRAPE_SECONDS}s] offset -{_NEXT_SCRAPE_SECONDS}s"


def edge_of(metric: str, extreme: str, edge: str, seconds: int, prefix: str = WITNESS) -> str:
    return f'{extreme}_over_time({prefix}{metric}{{edge="{edge}"}}{lately(seconds)})'


def without_pods(plan: Plan) -> str:
    without = plan.profile.load_profile.mode == "cr"
    return "CapacityRequests exist without Pods here (BF-0017)" if without else ""
