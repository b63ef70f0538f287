"""The preflight of every command that takes a profile: one order, one set of words, whatever the command is."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from scaletest.errors import UsageError
from scaletest.model.plan import Plan
from scaletest.project import CHART
from scaletest.run.fleet.installed import InstallOptions, check_chart
from scaletest.run.fleet.up import resized
from scaletest.run.request.destination import (
    Destination,
    read_destination,
    refuse_without_images,
    refuse_without_prometheus,
)
from scaletest.run.request.request import Request, TargetOptions, read_caps, read_plan, refuse_wrong_namespace
from scaletest.run.request.values import read_overrides
from scaletest.run.results_folder import refuse_results_folder
from scaletest.run.steps.guard import Caps
from scaletest.run.steps.preflight import not_built, refusals_of_run, too_little_memory
from scaletest.run.target.helm_errors import merged

# Adds what only the report knows, the dashboard, to a plan's Helm values.
Dress = Callable[[Plan, dict[str, Any]], dict[str, Any]]
# Finds Helm, which renders without a cluster.
FindHelm = Callable[[], Awaitable[Path]]


@dataclass(frozen=True)
class Examined:
    """A request that can be read, and every reason why nothing is begun for it."""

    request: Request
    plan: Plan
    caps: Caps
    dress: Dress
    chart: Path
    namespace: str
    destination: Destination = field(default_factory=Destination)
    # Helm values that the user gave: images and --set.
    chosen: dict[str, Any] = field(default_factory=dict)
    refusals: tuple[UsageError, ...] = ()

    def values(self, run_id: str) -> dict[str, Any]:
        """The Helm values of the plan, in the size that was asked for; without those that the user gave."""
        values, request = self.plan.values(run_id), self.request
        return self.dress(self.plan, resized(values, request.clusters, request.pods) if request.is_resized else values)

    def install_options(self, run_id: str, bin_dir: Path, helm: Path) -> InstallOptions:
        """How a fleet is built for it."""
        return InstallOptions(
            run_id=run_id,
            chart=self.chart,
            bin_dir=bin_dir,
            helm=helm,
            context=self.destination.context,
            prometheus_url=self.destination.prometheus_url,
            namespace=self.namespace,
            overrides=self.chosen,
        )


async def examine(request: Request, find_helm: FindHelm, dress: Dress) -> Examined:
    """Raises UsageError for an option that cannot be read; what else speaks against the request is collected."""
    target = request.target or TargetOptions()
    plan = read_plan(request)
    caps = read_caps(request)
    refuse_wrong_namespace(target.namespace)
    chart = (target.chart or CHART).absolute()
    if not (chart / "Chart.yaml").is_file():
        raise UsageError(f"{chart} is not a chart", hint="give a folder that holds a Chart.yaml")
    overrides = read_overrides(target.sets, chart)

    examined = Examined(request, plan, caps, dress, chart, target.namespace)
    refusals = list(_against_the_plan(examined))
    destination = Destination()
    if request.target:
        with _collected(refusals):
            destination = read_destination(plan, target.context, target.images, target.prometheus_url)
            if target.chart is None:
                refuse_without_images(destination, overrides)
            if request.judged:
                refuse_without_prometheus(overrides)
    chosen = merged(destination.images, overrides)
    with _collected(refusals):
        await check_chart(await find_helm(), chart, examined.values("dry-run"), chosen, target.namespace)
    with _collected(refusals):
        refuse_results_folder(target.results)
    return replace(examined, destination=destination, chosen=chosen, refusals=tuple(refusals))


def _against_the_plan(examined: Examined) -> Iterator[UsageError]:
    plan = examined.plan
    if examined.request.judged:
        yield from refusals_of_run(plan, examined.caps)
        return
    values = examined.values("dry-run")
    footprint = plan.footprint_of(values["kwok"]["clusterCount"], values["loadProfile"]["target"])
    yield from too_little_memory(plan, footprint)
    yield from not_built(plan)


@contextmanager
def _collected(refusals: list[UsageError]) -> Iterator[None]:
    """A refusal that comes here does not keep the next ones from being told."""
    try:
        yield
    except UsageError as error:
        refusals.append(error)
