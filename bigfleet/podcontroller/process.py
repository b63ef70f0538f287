"""The pod-controller process: informers, workers and metrics until cancelled."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry

from bigfleet.kube import KubeClient, KubeConfig
from bigfleet.podcontroller.controller import PodController
from bigfleet.podcontroller.penalties import load_defaults
from bigfleet.process.daemon import serve_metrics, watch_loop_lag


@dataclass(frozen=True)
class PodControllerOptions:
    """Settings of the pod-controller."""

    kubeconfig: Path
    """How to reach the cluster's apiserver: certificates or a token."""
    metrics_addr: str = ":8080"
    """`host:port` of /metrics, /healthz and /readyz; 0 = nowhere."""
    qps: float = 200.0
    """Requests per second to the cluster's apiserver, on average."""
    burst: int = 400
    """Requests that may go out at once after a pause."""
    priority_class_defaults: Path | None = None
    """YAML: PriorityClass name → {interruptionPenalty, reclamationPenalty}, for Pods without annotations."""


async def serve(options: PodControllerOptions) -> None:
    """Serve one cluster until cancelled; ready once both informers have synced."""
    defaults = load_defaults(options.priority_class_defaults)
    config = KubeConfig.from_file(options.kubeconfig)
    registry = CollectorRegistry()
    async with KubeClient(config, qps=options.qps, burst=options.burst, user_agent="bigfleet-pod-controller") as kube:
        controller = PodController(kube, defaults, registry)

        def ready() -> bool:
            return controller.pods.synced.is_set() and controller.requests.synced.is_set()

        server = await serve_metrics(options.metrics_addr, registry, ready)
        try:
            async with asyncio.TaskGroup() as group:
                for loop in (controller.pods, controller.requests, controller):
                    group.create_task(loop.run())
                group.create_task(watch_loop_lag(registry))
        finally:
            await server.cleanup()
