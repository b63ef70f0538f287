"""Startup, readiness and liveness probes of one container run."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from scaletest.host.kubelet.pod.actions import ActionFailed, Actions

# Until a container is up it is probed at least this often: waiting a whole period would only delay the install.
_EAGER_SECONDS = 0.5
# A failure that lasts is told again after this.
_TELL_AGAIN_SECONDS = 10.0


class Prober:
    """One probe of one container run: its schedule, and what it tells of failures.

    Nothing is told during the first period: that a container is just starting is no news.
    """

    def __init__(self, actions: Actions, probe: Mapping[str, Any], on_failure: Callable[[str], None]) -> None:
        self._actions = actions
        self._probe = probe
        self._on_failure = on_failure
        self._period: float = probe.get("periodSeconds", 10)
        self._failure_threshold: int = probe.get("failureThreshold", 3)
        self._success_threshold: int = probe.get("successThreshold", 1)
        self._quiet_until = _now() + probe.get("initialDelaySeconds", 0) + self._period

    async def until_started(self) -> bool:
        """Whether the startup probe succeeded within its failureThreshold × periodSeconds."""
        await self._initial_delay()
        deadline = _now() + self._failure_threshold * self._period
        while failure := await self._failure():
            if _now() > deadline:
                self._on_failure(failure)
                return False
            await asyncio.sleep(min(self._period, _EAGER_SECONDS))
        return True

    async def follow(self, on_change: Callable[[bool], None]) -> None:
        """Report each change of readiness, for ever."""
        await self._initial_delay()
        ready, was_ready, streak = False, False, 0
        while True:
            failure = await self._failure()
            succeeded = failure is None
            streak = streak + 1 if succeeded != ready else 0
            if streak >= (self._success_threshold if succeeded else self._failure_threshold):
                ready, streak = succeeded, 0
                if failure:
                    self._on_failure(failure)
                was_ready = was_ready or ready
                on_change(ready)
            await asyncio.sleep(self._period if was_ready else min(self._period, _EAGER_SECONDS))

    async def until_dead(self) -> None:
        """Return once the liveness probe has failed failureThreshold times in a row."""
        await self._initial_delay()
        failures = 0
        while True:
            failure = await self._failure()
            failures = failures + 1 if failure else 0
            if failure and failures >= self._failure_threshold:
                self._on_failure(failure)
                return
            await asyncio.sleep(self._period)

    async def _initial_delay(self) -> None:
        await asyncio.sleep(self._probe.get("initialDelaySeconds", 0))

    async def _failure(self) -> str | None:
        """Why the probe fails now, or None if it does not."""
        try:
            await self._actions.perform(self._probe, self._probe.get("timeoutSeconds", 1))
        except ActionFailed as error:
            failure = str(error) or "failed"
            if _now() >= self._quiet_until:
                self._quiet_until = _now() + _TELL_AGAIN_SECONDS
                self._on_failure(failure)
            return failure
        return None


def _now() -> float:
    return asyncio.get_running_loop().time()
