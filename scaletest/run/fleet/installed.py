"""A fleet on its target: BigFleet and its KWOK clusters. A run installs one and removes it; `up` leaves it there."""

import asyncio
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from scaletest.errors import HelmError, InstallError, Leftovers, ScaletestError, UsageError
from scaletest.model.documents.durations import format_duration
from scaletest.model.names import NAMESPACE, RELEASE
from scaletest.model.plan import INSTALL_SECONDS, TEARDOWN_SECONDS
from scaletest.run.journal import RunJournal
from scaletest.run.steps.install import install_chart, prepare_namespace
from scaletest.run.steps.teardown import remove_release
from scaletest.run.target.helm import Helm
from scaletest.run.target.helm_errors import merged
from scaletest.run.target.kube_api import KubeApi
from scaletest.run.target.target import Target, prepare_context, prepare_embedded


@dataclass(frozen=True)
class InstallOptions:
    """What to install, from what, and where."""

    run_id: str
    chart: Path
    bin_dir: Path
    helm: Path
    # The kube context to build on; None: a host of its own on this machine.
    context: str | None = None
    # Where the run's Prometheus answers on that context; empty: a port-forward of our own.
    prometheus_url: str = ""
    namespace: str = NAMESPACE
    # Helm values that win over the rendered ones.
    overrides: dict[str, Any] = field(default_factory=dict)


async def check_chart(
    helm: Path, chart: Path, values: dict[str, Any], chosen: dict[str, Any], namespace: str = NAMESPACE
) -> None:
    """Render the chart with what the user chose on top, which needs no cluster."""
    try:
        await Helm(helm, None, RELEASE, namespace).render(chart, merged(values, chosen), chosen)
    except HelmError as error:
        if chosen:  # without them it renders, as every profile's test shows
            raise UsageError(error.message, hint=error.hint) from error
        raise


class InstalledFleet:
    """Install it once, remove it once."""

    def __init__(self, options: InstallOptions, values: dict[str, Any], journal: RunJournal) -> None:
        self._options = options
        self._journal = journal
        self.values = merged(values, options.overrides)
        self.target: Target | None = None
        self.api: KubeApi | None = None
        self._helm: Helm | None = None

    async def prepare_target(self) -> Target:
        options, say = self._options, self._journal.say
        if options.context is None:
            say("host", "starting a control plane on this machine")
            self.target = await prepare_embedded(options.bin_dir, options.run_id, options.namespace)
        else:
            say("host", f"context {options.context}: looking at what we may do there")
            self.target = await prepare_context(
                options.bin_dir / "kubectl",
                options.context,
                options.run_id,
                options.namespace,
                partial(say, "prometheus"),
                options.prometheus_url,
            )
        say("host", "up", kubeconfig=str(self.target.kubeconfig), **self.target.facts)
        return self.target

    async def install(self) -> KubeApi:
        """Bring everything up on the target; returns when every pod is Ready."""
        options, target = self._options, self.target
        if target is None:
            raise RuntimeError("there is no cluster to build on")
        api = KubeApi(target.kubeconfig, options.namespace, options.run_id, target.private_dir)
        # From here on there is something to remove.
        self.api = api
        self._helm = helm = Helm(options.helm, target.kubeconfig, RELEASE, options.namespace)
        try:
            async with asyncio.timeout(INSTALL_SECONDS):
                await prepare_namespace(api, options.run_id, target.private_dir)
                self._journal.say("install", f"helm install {RELEASE} -n {options.namespace}")
                await install_chart(
                    helm, api, self._journal, options.chart, self.values, INSTALL_SECONDS, options.overrides
                )
        except TimeoutError:
            raise InstallError(f"not every pod was Ready after {format_duration(INSTALL_SECONDS)}") from None
        self._journal.say("install", "every pod is Ready")
        return api

    async def keep(self) -> None:
        """Leave it up on purpose: `down` removes it."""
        if self.api:
            await self.api.disown()
        if self.target:
            await self.target.hand_over()

    async def remove(self) -> None:
        """Release, namespace, target. Raises Leftovers if something is still there."""
        left: list[str] = []
        if self.target:
            await self.target.close_ways()
        if self.api and self._helm and self.target and self.target.alive:
            try:
                left = await remove_release(self._helm, self.api, TEARDOWN_SECONDS)
            except ScaletestError as error:
                left = [f"namespace/{self.api.namespace} ({error.message})"]
        if left and self.target and self.target.kind == "embedded":
            # The cluster goes with its target, and so does whatever was left in it.
            self._journal.say("teardown", f"the cluster's part failed: {', '.join(left)}")
            left = []
        if left:
            raise Leftovers(
                f"left behind: {', '.join(left)}", hint=f"run `scaletest-runner gc --run {self._options.run_id}`"
            )
        if self.target:
            await self.target.stop()

    async def force_down(self) -> None:
        """Stop at once, without a grace for pods; what the run has on an existing cluster stays for `gc`."""
        if self.target:
            await self.target.stop(force=True)
            if self.target.kind != "embedded":
                self._journal.say("stop", f"scaletest-runner gc --run {self._options.run_id} removes what is left")
