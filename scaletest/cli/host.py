"""`host`: the embedded host alone, as a small Kubernetes cluster on this machine."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from scaletest.cli.arguments import OutputOption
from scaletest.cli.showing import age, table

if TYPE_CHECKING:
    from scaletest.run.fleet.status import FleetStatus

host_app = typer.Typer(
    help="A real control plane on this machine.\n\nPods are local processes; no Docker, no root.", no_args_is_help=True
)

HostArgument = Annotated[str, typer.Argument(metavar="ID", help="A host or its run; may be left out if one is up.")]


@host_app.command("up")
def host_up() -> None:
    """Bring a host up and leave it, until `host down`."""
    import asyncio

    asyncio.run(_up())


@host_app.command("down")
def host_down(
    host_id: HostArgument = "",
    everything: Annotated[bool, typer.Option("--all", help="Every host that was left up.")] = False,
) -> None:
    """End a host, with all that runs on it; nothing is left."""
    import asyncio

    from scaletest.host.ending import end_host
    from scaletest.host.registry import choose, find_hosts, refuse_owned

    hosts = [host for host in find_hosts() if host.is_up or host.is_left]
    chosen = [host for host in hosts if not host.owner] if everything else [choose(hosts, host_id, hint=_UP)]
    for host in chosen:
        refuse_owned(host)
        asyncio.run(end_host(host))
        typer.echo(f"host {host.id} is down; nothing is left of it")


@host_app.command("status")
def host_status(output: OutputOption = "text") -> None:
    """Which hosts are up."""
    import asyncio

    from scaletest.host.registry import find_hosts

    hosts: list[FleetStatus] = []
    if up := [host for host in find_hosts() if host.is_up]:
        from scaletest.run.fleet.status import look_at_hosts

        hosts = asyncio.run(look_at_hosts(up))
    if output == "json":
        typer.echo(json.dumps([_document(host) for host in hosts], indent=2))
        return
    typer.echo("\n".join(table(_rows(hosts)) if hosts else ["no host is up"]))
    say_if_something_is_left()


@host_app.command("kubeconfig")
def host_kubeconfig(
    host_id: HostArgument = "",
    cluster: Annotated[
        int | None, typer.Option("--cluster", metavar="N", min=0, help="Of the run's KWOK cluster N instead.")
    ] = None,
) -> None:
    """Print the path of a kubeconfig.

    export KUBECONFIG=$(scaletest-runner host kubeconfig)
    """
    import asyncio

    from scaletest.host.registry import choose, find_hosts
    from scaletest.run.fleet.status import cluster_kubeconfig, look_at_hosts

    host = choose([host for host in find_hosts() if host.is_up], host_id, hint=_UP)
    if cluster is None:
        typer.echo(host.kubeconfig)
        return
    [status] = asyncio.run(look_at_hosts([host]))
    typer.echo(cluster_kubeconfig(host, status, cluster))


_UP = "run `scaletest-runner host up`"


def say_if_something_is_left() -> None:
    from scaletest.host.registry import find_hosts

    if any(host.is_left for host in find_hosts()):
        typer.echo("killed runners left something behind: scaletest-runner gc shows it", err=True)


async def _up() -> None:
    from scaletest.cli.signals import interruptible
    from scaletest.cli.tools import provide_toolchain
    from scaletest.host.embedded import EmbeddedHost
    from scaletest.host.registry import new_host

    toolchain = await provide_toolchain()

    async def start() -> EmbeddedHost:
        host_id, directory = new_host()
        async with EmbeddedHost.start(directory, toolchain.bin_dir, host_id=host_id) as host:
            await host.hand_over()
        return host

    typer.echo("starting a control plane on this machine", err=True)
    host = await interruptible(start, lambda text: typer.echo(text, err=True))
    typer.echo(f"host {host.id} is up on {host.address}")
    typer.echo(f"  look    export KUBECONFIG=$(scaletest-runner host kubeconfig {host.id}); kubectl get nodes")
    typer.echo(f"  remove  scaletest-runner host down {host.id}")


def _rows(hosts: "list[FleetStatus]") -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("ID", "SINCE", "ADDRESS", "PODS", "RUN", "KUBECONFIG")]
    rows += [
        (host.host_id, age(host.since), host.where, host.pods_text, host.run_id or "–", str(host.kubeconfig))
        for host in hosts
    ]
    return rows


def _document(host: "FleetStatus") -> dict[str, object]:
    return {
        "id": host.host_id,
        "since": host.since,
        "address": host.where,
        "pods": host.pods_text,
        "run": host.run_id or None,
        "ownerPid": host.owner.pid if host.owner else None,
        "kubeconfig": str(host.kubeconfig),
    }
