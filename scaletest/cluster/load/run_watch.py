"""Where the run stands, as the runner tells it through the ConfigMap `scaletest-run`.

See docs/reference/harness.md#run-state.
"""

import asyncio
import math
import time
from collections.abc import Callable

import msgspec
import structlog

from bigfleet.kube import KubeClient, Subset, TypedInformer
from bigfleet.kube.resources import CONFIG_MAPS
from bigfleet.process import daemon
from scaletest.model.names import RUN_CONFIG_MAP

log = structlog.get_logger(__name__)


class RunState(msgspec.Struct, rename="camel"):
    """What the runner writes; a soak has a start, in Unix seconds."""

    phase: str = ""
    soak_start: str = ""


class RunConfigMap(Subset):
    data: RunState = msgspec.field(default_factory=RunState)


class RunWatch:
    """Whether the soak is on, and since when. Without a run to watch it never is."""

    def __init__(self, on_soak_start: Callable[[float], None] = lambda _: None) -> None:
        self.soaking = asyncio.Event()
        # In Unix seconds; has a meaning while soaking.
        self.soak_start = 0.0
        # Where the run stands has been looked at once.
        self.known = asyncio.Event()
        self._on_soak_start = on_soak_start

    @property
    def soak_seconds(self) -> float:
        """How long the soak has been on; minus infinity when it is not."""
        return time.time() - self.soak_start if self.soaking.is_set() else -math.inf

    async def run(self, client: KubeClient, namespace: str) -> None:
        """Follow the ConfigMap for ever."""
        fields = f"metadata.name={RUN_CONFIG_MAP}"
        informer = TypedInformer(
            client, CONFIG_MAPS, RunConfigMap, namespace=namespace, fields=fields, on_change=self.on_change
        )

        async def look_once() -> None:
            await informer.synced.wait()
            self.known.set()

        await daemon.forever(informer.run(), look_once())

    def on_change(self, _: RunConfigMap | None, new: RunConfigMap | None) -> None:
        if new is None or new.data.phase != "soak":
            self.soaking.clear()
            return
        try:
            soak_start = float(new.data.soak_start)
        except ValueError:
            log.error("soak without a start", config_map=RUN_CONFIG_MAP, soak_start=new.data.soak_start)
            return
        if not self.soaking.is_set():
            log.info("soak begins", soak_start=soak_start)
            self.soak_start = soak_start
            self._on_soak_start(soak_start)
            self.soaking.set()
