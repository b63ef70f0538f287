"""Guards over other people's money: what a kube context is, and when a run needs a yes (spec/harness.md §1.2)."""

from typing import Literal

from scaletest.errors import UsageError
from scaletest.model.durations import format_duration
from scaletest.model.plan import Plan

PROMPT_FROM_USD = 5.0
DEFAULT_MAX_COST_USD = 50.0

# Parts of a context's name that give a paid cloud away: the runbook's, plus Scaleway's.
_CLOUD_NAMES = ("eks", "aws", "gke", "gcp", "aks", "azure", "scw", "scaleway", "kapsule")

TargetKind = Literal["embedded", "cloud", "kind", "unknown"]


def classify_context(name: str) -> TargetKind:
    """What a context's name suggests. A cloud's name wins: `kind-of-eks` costs money, a laptop's kind does not."""
    lowered = name.lower()
    if any(part in lowered for part in _CLOUD_NAMES):
        return "cloud"
    return "kind" if "kind" in lowered else "unknown"


def current_context() -> str:
    """The name of the kube context that a run would use."""
    from kubernetes import config
    from kubernetes.config.config_exception import ConfigException

    try:
        _, active = config.list_kube_config_contexts()
    except (ConfigException, OSError) as error:
        raise UsageError(f"there is no usable kube context: {error}", hint="kubectl config get-contexts") from error
    return str(active["name"])


def needs_consent(plan: Plan, kind: TargetKind) -> bool:
    """Whether to ask before spending: a cloud, and not small change by the larger of the two prices."""
    return kind == "cloud" and plan.cost.larger_usd >= PROMPT_FROM_USD


def consent_question(plan: Plan, context: str) -> str:
    return (
        f"context {context} looks like a cloud: {plan.geometry.hosts} hosts, about ${plan.cost.soak_usd:.2f} "
        f"for the soak and ${plan.cost.run_usd:.2f} for the whole run. Go on? [y/N] "
    )


def needed_max_duration(plan: Plan) -> str:
    """The --max-duration that leaves every phase its whole budget."""
    whole_minutes = -(-int(sum(phase.budget_seconds for phase in plan.phases)) // 60)
    hours, minutes = divmod(whole_minutes, 60)
    return f"{hours}h{minutes}m" if hours else f"{minutes}m"


def needed_flags(plan: Plan, max_duration_seconds: float, max_cost_usd: float) -> list[str]:
    """The flags without which a run of this plan is refused."""
    flags = []
    if plan.capped_seconds > max_duration_seconds:
        flags.append(f"--max-duration {needed_max_duration(plan)}")
    if plan.cost.larger_usd > max_cost_usd:
        flags.append(f"--max-cost-usd {int(plan.cost.larger_usd) + 1}")
    return flags


def refuse_beyond_caps(plan: Plan, max_duration_seconds: float, max_cost_usd: float) -> None:
    """A run that could only end by its cap is not begun."""
    flags = needed_flags(plan, max_duration_seconds, max_cost_usd)
    if plan.capped_seconds > max_duration_seconds:
        raise UsageError(
            f"settle and soak alone may take {format_duration(plan.capped_seconds)}, "
            f"--max-duration is {format_duration(max_duration_seconds)}",
            hint=" ".join(flags),
        )
    if plan.cost.larger_usd > max_cost_usd:
        raise UsageError(
            f"the run is estimated at ${plan.cost.larger_usd:.2f}, --max-cost-usd is ${max_cost_usd:g}",
            hint=" ".join(flags),
        )
