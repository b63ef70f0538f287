"""A fleet that `up` built, driven by the commands that a user has: `scaletest-runner` and `kubectl`."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from scaletest.toolchain import ensure
from tests.smoke.runs import HANG_SECONDS

NAMESPACE = "bigfleet-scaletest"


class UpFleet:
    """What `up` left, in a state directory of its own."""

    def __init__(self, base: Path) -> None:
        self.state = base / "state"
        self.output = base / "results"
        self._environ = os.environ | {"XDG_STATE_HOME": str(self.state)}
        self._kubectl = asyncio.run(ensure(["kubectl"])).path("kubectl")

    async def up(self, *arguments: str) -> None:
        await self.runner("up", "--results", str(self.output), *arguments)

    def down(self) -> None:
        """Remove it, unless a test has."""
        if list(self.state.glob("*/hosts/*")):
            asyncio.run(self.runner("down"))

    async def runner(self, *arguments: str) -> str:
        return await self._run(sys.executable, "-m", "scaletest.cli", *arguments)

    async def kubectl(self, kubeconfig: str, *arguments: str) -> str:
        return await self._run(str(self._kubectl), f"--kubeconfig={kubeconfig}", *arguments)

    async def _run(self, *command: str) -> str:
        process = await asyncio.create_subprocess_exec(
            *command, env=self._environ, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        screen, _ = await asyncio.wait_for(process.communicate(), HANG_SECONDS)
        assert process.returncode == 0, screen.decode()
        return screen.decode()

    def status(self) -> dict[str, Any]:
        [one] = json.loads(asyncio.run(self.runner("status", "-o", "json")))
        return dict(one)

    def get(self, *arguments: str) -> Any:
        return json.loads(asyncio.run(self.kubectl(self.status()["kubeconfig"], "-n", NAMESPACE, "get", *arguments)))
