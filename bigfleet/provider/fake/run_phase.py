"""Where the run stands, as the ConfigMap of the run says."""

import asyncio
from pathlib import Path

import structlog

from bigfleet.kube import Informer, KubeClient, KubeConfig, Object
from bigfleet.kube.resources import CONFIG_MAPS

SOAK = "soak"

log = structlog.get_logger(__name__)


class RunPhase:
    """The current phase; empty while no run says anything."""

    def __init__(self) -> None:
        self.name = ""
        self._changed = asyncio.Event()

    def set(self, name: str) -> None:
        if name != self.name:
            log.info("run phase", phase=name, before=self.name)
            self.name = name
            self._changed.set()
            self._changed = asyncio.Event()

    async def until(self, name: str) -> None:
        while self.name != name:
            await self._changed.wait()

    async def changes_within(self, seconds: float) -> None:
        """Return at the next change of phase, or when the time is up."""
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return

    async def follow(self, service_account_dir: Path, namespace: str, config_map: str) -> None:
        """Keep up with the ConfigMap until cancelled."""

        def observe(_: Object | None, new: Object | None) -> None:
            self.set((new.get("data") or {}).get("phase", "") if new else "")

        async with KubeClient(KubeConfig.from_service_account(service_account_dir)) as client:
            fields = f"metadata.name={config_map}"
            await Informer(client, CONFIG_MAPS, namespace=namespace, fields=fields, on_change=observe).run()
