"""Helm through pyhelm3, with a Command that execs instead of going through a shell.

pyhelm3's own `Command.run` cannot be cancelled cleanly and logs its arguments (design.md §4, Dependencies).
"""

import asyncio
from pathlib import Path
from typing import Any

from pyhelm3 import Client
from pyhelm3 import errors as helm_errors
from pyhelm3.command import Command

from bigfleet import childprocess
from scaletest.errors import HelmError

_TERM_SECONDS = 10


class ExecCommand(Command):  # type: ignore[misc]
    """Runs Helm as a process group of its own; cancelling it stops Helm before the cancellation goes on."""

    async def run(self, command: list[Any], input: bytes | None = None) -> bytes:
        arguments = [str(part) for part in command]
        if arguments[0] == "uninstall" and "--wait" in arguments:
            arguments += ["--cascade", "foreground"]  # `--wait` alone returns while pods still terminate
        if self._kubeconfig:
            arguments += ["--kubeconfig", str(self._kubeconfig)]
        process = await asyncio.create_subprocess_exec(
            self._executable,
            *arguments,
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


class Helm:
    """One release in one namespace."""

    def __init__(self, executable: Path, kubeconfig: Path, release: str, namespace: str) -> None:
        command = ExecCommand(executable=str(executable), kubeconfig=kubeconfig)
        self._client = Client(command, executable=str(executable))
        self._release = release
        self._namespace = namespace

    async def install(self, chart: Path, values: dict[str, Any], timeout_seconds: int) -> None:
        """Install and wait until every pod is Ready. Values go in through stdin, never through argv."""
        try:
            await self._client.install_or_upgrade_release(
                self._release,
                await self._client.get_chart(str(chart)),
                values,
                namespace=self._namespace,
                create_namespace=False,
                timeout=f"{timeout_seconds}s",
                wait=True,
            )
        except helm_errors.Error as error:
            raise HelmError(
                f"helm install: {_words(error)}", hint="rendered-values.yaml holds the values it got"
            ) from error

    async def uninstall(self, timeout_seconds: int) -> None:
        """Remove the release and wait until its objects are gone. A release that is not there is fine."""
        try:
            await self._client.uninstall_release(
                self._release, namespace=self._namespace, timeout=f"{timeout_seconds}s", wait=True
            )
        except helm_errors.Error as error:
            raise HelmError(f"helm uninstall: {_words(error)}") from error


def _words(error: helm_errors.Error) -> str:
    return bytes(error.stderr).decode(errors="replace").strip().removeprefix("Error: ")
