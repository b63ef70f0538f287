"""Helm through pyhelm3, with a Command that execs instead of going through a shell.

pyhelm3's own `Command.run` cannot be cancelled cleanly and logs its arguments (docs/reference/harness.md#helm).
"""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from pyhelm3 import Chart, Client
from pyhelm3 import errors as helm_errors
from pyhelm3.command import Command

from bigfleet.process import childprocess
from bigfleet.process.parentdeath import dying_with_us
from scaletest.errors import HelmError
from scaletest.run.target.helm_errors import values_in_question

_TERM_SECONDS = 10
# Helm is killed by strangers (the kernel short of memory) rarely; twice in a row is no accident.
_ATTEMPTS = 2


class ExecCommand(Command):  # type: ignore[misc]
    """Runs Helm as a process group of its own, which dies with us; cancelling stops it before the cancellation goes on.

    Only `--kubeconfig` says where to: the user's HELM_KUBECONTEXT and the like do not count.
    """

    async def run(self, command: list[Any], input: bytes | None = None) -> bytes:
        arguments = [str(part) for part in command]
        if arguments[0] == "uninstall" and "--wait" in arguments:
            arguments += ["--cascade", "foreground"]  # `--wait` alone returns while pods still terminate
        if self._kubeconfig:
            arguments += ["--kubeconfig", str(self._kubeconfig)]
        process = await asyncio.create_subprocess_exec(
            *dying_with_us([self._executable, *arguments]),
            env=_environment(),
            stdin=asyncio.subprocess.PIPE if input is not None else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        try:
            stdout, stderr = await process.communicate(input)
        finally:
            await childprocess.stop_group(process, _TERM_SECONDS)
        if process.returncode == 0:
            return stdout
        words = stderr.decode(errors="replace")
        kind = helm_errors.ReleaseNotFoundError if "release: not found" in words else helm_errors.Error
        raise kind(process.returncode, stdout, stderr)


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("HELM_") or name.endswith("_HOME")}


class Helm:
    """One release in one namespace. `kubeconfig` is not needed to render."""

    def __init__(self, executable: Path, kubeconfig: Path | None, release: str, namespace: str) -> None:
        self._command = ExecCommand(executable=str(executable), kubeconfig=kubeconfig)
        self._client = Client(self._command, executable=str(executable))
        self._release = release
        self._namespace = namespace

    async def render(self, chart: Path, values: dict[str, Any], chosen: dict[str, Any]) -> None:
        """Render without a cluster; raises HelmError for a chart that does not go with its values."""
        try:
            await self._client.template_resources(
                await self._chart(chart), self._release, values, namespace=self._namespace
            )
        except helm_errors.Error as error:
            hint = f"{chart / 'values.yaml'} for the values, with what each is for"
            raise _chart_error("helm template", error, chart, values, chosen, hint) from error

    async def install(
        self, chart: Path, values: dict[str, Any], timeout_seconds: float, chosen: dict[str, Any] | None = None
    ) -> None:
        """Install or upgrade, and wait until every pod is Ready. Values go in through stdin, never through argv.

        What an earlier Helm left half-done is undone first: a pending install removed, a pending upgrade rolled back.
        `chosen` are the values that the user gave, for the message when Helm says no.
        """
        deadline = asyncio.get_running_loop().time() + timeout_seconds
        for attempt in range(1, _ATTEMPTS + 1):
            left = max(1, int(deadline - asyncio.get_running_loop().time()))
            try:
                await self._client.get_proceedable_revision(
                    self._release, namespace=self._namespace, timeout=f"{left}s"
                )
                await self._client.install_or_upgrade_release(
                    self._release,
                    await self._chart(chart),
                    values,
                    namespace=self._namespace,
                    create_namespace=False,
                    timeout=f"{left}s",
                    wait=True,
                )
                return
            except helm_errors.Error as error:
                if error.returncode != -signal.SIGKILL or attempt == _ATTEMPTS:
                    hint = "see rendered-values.yaml in the results for all the values it got"
                    raise _chart_error("helm install", error, chart, values, chosen or {}, hint) from error

    async def _chart(self, path: Path) -> Chart:
        """As `helm show chart` has it, which is a process more; asked only if Helm is to say what is wrong with it."""
        try:
            return Chart(self._command, ref=path, metadata=yaml.safe_load((path / "Chart.yaml").read_bytes()))
        except (OSError, yaml.YAMLError, ValidationError):
            return await self._client.get_chart(str(path))

    async def uninstall(self, timeout_seconds: float) -> None:
        """Remove the release and wait until its objects are gone. A release that is not there is fine."""
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                await self._client.uninstall_release(
                    self._release, namespace=self._namespace, timeout=f"{int(timeout_seconds)}s", wait=True
                )
                return
            except helm_errors.Error as error:
                if error.returncode != -signal.SIGKILL or attempt == _ATTEMPTS:
                    raise HelmError(f"helm uninstall: {_words(error)}") from error


def _chart_error(
    what: str, error: helm_errors.Error, chart: Path, values: dict[str, Any], chosen: dict[str, Any], hint: str
) -> HelmError:
    words = _words(error)
    blamed = values_in_question(words, chart, values, chosen)
    return HelmError("\n".join([f"{what}: {words}", *(f"  value  {line}" for line in blamed)]), hint)


def _words(error: helm_errors.Error) -> str:
    if error.returncode < 0:
        return f"helm was ended by {signal.Signals(-error.returncode).name}"
    return bytes(error.stderr).decode(errors="replace").strip().removeprefix("Error: ")
