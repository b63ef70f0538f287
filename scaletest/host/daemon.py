"""hostd: one process that owns an embedded host, from the first certificate to the last pod.

It ends, and with it everything that it started, on SIGTERM, on SIGINT, and when its standard input ends: the runner
holds the other end of that pipe, so a runner that is killed leaves nothing behind. A runner that wants the host to
outlive it writes KEEP first.
"""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import structlog

from bigfleet.kube import KubeClient, KubeConfig
from bigfleet.process.daemon import configure_logging
from bigfleet.process.racing import first_of
from scaletest.components.pki import Pki
from scaletest.errors import ScaletestError
from scaletest.host import janitor as janitors
from scaletest.host.addresses import Network, NetworkClaim, PodAddresses, claim_network
from scaletest.host.controlplane import ControlPlane
from scaletest.host.credentials import KUBELET, make_plane
from scaletest.host.kubelet import node
from scaletest.host.kubelet.events import Events
from scaletest.host.kubelet.kubelet import Kubelet
from scaletest.host.kubelet.logs.logs import keep_trimmed
from scaletest.host.kubelet.network.names import PodNames
from scaletest.host.kubelet.runtime import Runtime
from scaletest.host.registry import KEEP
from scaletest.supervise.spawner import Spawner

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class HostOptions:
    """What the runner tells its host."""

    id: str
    dir: Path
    bin_dir: Path
    logs_dir: Path
    start_timeout_seconds: float
    # How long pods get to end when the host stops.
    stop_grace_seconds: float
    # Where the host's state is reported, one JSON object per line. The janitor keeps it open to the very end.
    status_fd: int


async def serve(options: HostOptions) -> None:
    """Run a host until told to stop. Raises HostError if it cannot be brought up."""
    with contextlib.closing(Spawner()) as spawner:
        claim = claim_network()
        janitor = asyncio.create_task(_keep_janitor(options, spawner, claim))
        host = asyncio.create_task(_run_host(options, spawner, claim))
        first = await first_of(host, janitor, _until_told_to_stop(options))
        host.cancel()
        await asyncio.wait({host})
        janitor.cancel()
        for ended in {*filter(None, first), host}:
            if not ended.cancelled():
                ended.result()


async def _run_host(options: HostOptions, spawner: Spawner, claim: NetworkClaim) -> None:
    """Start everything, report, and go on until cancelled; then stop pods before the control plane."""
    plane = make_plane(options.dir, claim.network)
    deadline = asyncio.get_running_loop().time() + options.start_timeout_seconds
    # One connection per probe: a kept-alive one would outlast the process that it was opened to.
    connector = aiohttp.TCPConnector(force_close=True, limit=0)
    async with (
        KubeClient(plane.pki.admin(), user_agent="hostd") as admin,
        KubeClient(KubeConfig.from_file(plane.pki.kubeconfig(KUBELET)), user_agent="process-kubelet") as client,
        aiohttp.ClientSession(connector=connector) as http,
    ):
        control_plane = ControlPlane(
            spawner,
            options.id,
            plane=plane,
            network=claim.network,
            logs_dir=options.logs_dir / "control-plane",
            bin_dir=options.bin_dir,
            admin=admin,
            http=http,
        )
        kubelet = _make_kubelet(options, spawner, claim.network, plane.pki, client, http)
        try:
            await control_plane.start_api(deadline)
            await node.grant_kubelet_rights(admin)
            version = json.loads(await admin.raw("GET", "/version"))["gitVersion"]
            registered = asyncio.Event()
            async with asyncio.TaskGroup() as group:
                group.create_task(kubelet.run(version, registered))
                group.create_task(keep_trimmed(options.logs_dir))
                await control_plane.start_controllers(deadline)
                await registered.wait()
                _report(options, state="ready", address=claim.network.control_plane)
        finally:
            await control_plane.stop_controllers()
            await kubelet.stop(options.stop_grace_seconds)
            await control_plane.stop()


def _make_kubelet(
    options: HostOptions, spawner: Spawner, network: Network, pki: Pki, client: KubeClient, http: aiohttp.ClientSession
) -> Kubelet:
    addresses = PodAddresses(network)
    runtime = Runtime(
        host_id=options.id,
        directory=options.dir,
        pod_logs_dir=options.logs_dir / "pods",
        bin_dir=options.bin_dir,
        network=network,
        allocatable=node.capacity(options.dir),
        spawner=spawner,
        client=client,
        http=http,
        addresses=addresses,
        names=PodNames(client, network, addresses),
        events=Events(client),
    )
    return Kubelet(runtime, pki)


async def _keep_janitor(options: HostOptions, spawner: Spawner, claim: NetworkClaim) -> None:
    """Have a janitor at all times. It learns of our end when the pipe that we alone write to is closed.

    Only the kernel closes it, when hostd is gone: a janitor that woke up earlier would kill hostd while it writes its
    report.
    """
    reading, _ = os.pipe()
    argv = [sys.executable, "-P", "-m", janitors.MODULE, options.id, str(options.dir)]
    inherited = (options.status_fd, claim.socket.fileno())
    while True:
        process = spawner.spawn(
            argv, env=os.environ, cwd=Path("/"), stdin=reading, inherit=inherited, outlive_parent=True
        )
        log.warning("janitor ended, starting another", exit_code=await process.wait())


async def _until_told_to_stop(options: HostOptions) -> None:
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)

    def read() -> None:
        said = os.read(sys.stdin.fileno(), 4096)
        if KEEP in said:
            loop.remove_reader(sys.stdin.fileno())
            _report(options, state="kept")
        elif not said:
            told.set()

    loop.add_reader(sys.stdin.fileno(), read)
    try:
        await told.wait()
    finally:
        loop.remove_reader(sys.stdin.fileno())


def _report(options: HostOptions, **state: str) -> None:
    with contextlib.suppress(BrokenPipeError):
        os.write(options.status_fd, json.dumps(state).encode() + b"\n")


def _leaf(error: BaseException) -> BaseException:
    """The first error in a group of them."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _parse(arguments: list[str] | None = None) -> HostOptions:
    parser = argparse.ArgumentParser(prog="hostd", description=__doc__)
    parser.add_argument("--id", required=True)
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--bin-dir", type=Path, required=True)
    parser.add_argument("--logs-dir", type=Path, required=True)
    parser.add_argument("--start-timeout-seconds", type=float, default=60)
    parser.add_argument("--stop-grace-seconds", type=float, default=10)
    parser.add_argument("--status-fd", type=int, required=True)
    return HostOptions(**vars(parser.parse_args(arguments)))


def main() -> int:
    options = _parse()
    os.set_inheritable(options.status_fd, False)
    configure_logging("hostd")
    try:
        asyncio.run(serve(options))
    except Exception as error:
        cause = _leaf(error)
        log.exception("host failed")
        hint = cause.hint if isinstance(cause, ScaletestError) else ""
        message = str(cause) if isinstance(cause, ScaletestError) else f"{type(cause).__name__}: {cause}"
        _report(options, state="failed", error=message, hint=hint)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
