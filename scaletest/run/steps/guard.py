"""Guards over other people's money: what a kube context is, and when a run needs a yes.

See docs/reference/harness.md#cost-guard.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scaletest.errors import UsageError
from scaletest.model.contexts import TargetKind
from scaletest.model.counting import counted
from scaletest.model.documents.durations import format_duration, parse_duration

if TYPE_CHECKING:
    from scaletest.model.plan import Plan

PROMPT_FROM_USD = 5.0
DEFAULT_MAX_DURATION = "2h"
DEFAULT_MAX_COST_USD = 50.0


@dataclass(frozen=True)
class Caps:
    """What a run must not exceed."""

    max_duration_seconds: float
    max_cost_usd: float


DEFAULT_CAPS = Caps(parse_duration(DEFAULT_MAX_DURATION), DEFAULT_MAX_COST_USD)


def chosen_context(name: str = "") -> str:
    """The kube context that a run goes to: this one, or the current one. Raises UsageError where it is unknown."""
    import yaml
    from kubernetes.config import kube_config
    from kubernetes.config.config_exception import ConfigException

    try:
        config = kube_config.KubeConfigMerger(kube_config.KUBE_CONFIG_DEFAULT_LOCATION).config
        if config is None:
            raise ConfigException("there is no kubeconfig")
        names = [str(context["name"]) for context in config["contexts"].value]
        if not name or name in names:
            # It looks whether its cluster and user are there; those of the current context need not be.
            return str(kube_config.KubeConfigLoader(config, active_context=name or None).current_context["name"])
        reason = f"the kubeconfig has no {name!r}, but {', '.join(names) or 'none at all'}"
    except (ConfigException, OSError) as error:
        reason = str(error)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        reason = f"the kubeconfig is not valid YAML: {' '.join(str(error).split())}"
    except (AttributeError, KeyError, TypeError):  # the client takes every YAML for a kubeconfig
        reason = "the kubeconfig is YAML, but no kubeconfig"
    raise UsageError(f"there is no usable kube context: {reason}", hint="choose one of `kubectl config get-contexts`")


def needs_consent(plan: "Plan", kind: TargetKind) -> bool:
    """Whether to ask before spending: a cloud, and not small change by the larger of the two prices."""
    return kind == "cloud" and plan.cost.larger_usd >= PROMPT_FROM_USD


def consent_question(plan: "Plan", context: str) -> str:
    return (
        f"context {context} looks like a cloud: {counted(plan.geometry.hosts, 'host')}, "
        f"about ${plan.cost.soak_usd:.2f} for the soak and ${plan.cost.run_usd:.2f} for the whole run. Go on? [y/N] "
    )


def needed_max_duration(plan: "Plan") -> str:
    """The --max-duration that leaves every phase its whole budget."""
    whole_minutes = -(-int(sum(phase.budget_seconds for phase in plan.phases)) // 60)
    hours, minutes = divmod(whole_minutes, 60)
    return f"{hours}h{minutes}m" if hours else f"{minutes}m"


def needed_flags(plan: "Plan", caps: Caps) -> list[str]:
    """The flags without which a run of this plan is refused."""
    flags = []
    if plan.capped_seconds > caps.max_duration_seconds:
        flags.append(f"--max-duration {needed_max_duration(plan)}")
    if plan.cost.larger_usd > caps.max_cost_usd:
        flags.append(f"--max-cost-usd {int(plan.cost.larger_usd) + 1}")
    return flags


def beyond_caps(plan: "Plan", caps: Caps) -> list[UsageError]:
    """Why a run is not begun that could only end by a cap."""
    hint = " ".join(needed_flags(plan, caps))
    reasons = []
    if plan.capped_seconds > caps.max_duration_seconds:
        reasons.append(
            f"settle and soak alone may take {format_duration(plan.capped_seconds)}, "
            f"--max-duration is {format_duration(caps.max_duration_seconds)}"
        )
    if plan.cost.larger_usd > caps.max_cost_usd:
        reasons.append(f"the run is estimated at ${plan.cost.larger_usd:.2f}, --max-cost-usd is ${caps.max_cost_usd:g}")
    return [UsageError(reason, hint=hint) for reason in reasons]
