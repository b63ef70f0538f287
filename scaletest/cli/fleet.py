"""`down`, `status` and `gc`: fleets that stay between commands, and what is left of those that should not."""

import json
from pathlib import Path
from typing import Annotated

import typer

from scaletest.cli.arguments import OutputOption
from scaletest.cli.host import say_if_something_is_left
from scaletest.cli.showing import table
from scaletest.cli.status_text import status_document, status_lines
from scaletest.errors import UsageError


def take_down(
    name: Annotated[str, typer.Argument(metavar="ID", help="A run; may be left out if one is up.")] = "",
) -> None:
    """Remove what `up` or --keep left up.

    It makes sure that nothing is left but results.
    """
    import asyncio

    from scaletest.cli.tools import find_helm
    from scaletest.run.fleet.down import remove_run

    run_id = asyncio.run(remove_run(name, find_helm))
    typer.echo(f"{run_id} is down; nothing is left of it but its results")


def show_status(output: OutputOption = "text") -> None:
    """What is up, its pods, and how to reach it."""
    import asyncio

    from scaletest.run.fleet.status import look_at_all

    fleets = asyncio.run(look_at_all())
    if output == "json":
        typer.echo(json.dumps([status_document(one) for one in fleets], indent=2))
        return
    blocks = ["\n".join(status_lines(one)) for one in fleets]
    typer.echo("\n\n".join(blocks) if blocks else "nothing is up")
    say_if_something_is_left()


def collect_garbage(
    run_id: Annotated[str, typer.Option("--run", metavar="ID", help="Remove what is left of this run.")] = "",
    everything: Annotated[bool, typer.Option("--all", help="Remove all that killed runners left.")] = False,
    context: Annotated[
        str, typer.Option("--context", metavar="NAME", help="Look on this kube context too, by the runs' label.")
    ] = "",
) -> None:
    """Find what killed runners left, and remove it.

    Without --run or --all it is only listed. Nothing of a run whose runner lives is touched. What was left up on
    purpose goes only with --run.
    """
    import asyncio

    if run_id and everything:
        raise UsageError("--run and --all exclude each other")
    asyncio.run(_collect_garbage(run_id, everything, context))


async def _collect_garbage(run_id: str, everything: bool, context: str) -> None:
    import tempfile

    from scaletest.cli.tools import provide_toolchain
    from scaletest.run.fleet.leftovers import all_leftovers, remove_all

    toolchain = await provide_toolchain(["helm", "kubectl"])
    with tempfile.TemporaryDirectory(prefix="scaletest-gc-") as scratch:
        found = await all_leftovers(
            run_id, context, Path(scratch), helm=toolchain.path("helm"), kubectl=toolchain.path("kubectl")
        )
        if not found:
            typer.echo(f"nothing is left of {run_id}" if run_id else "nothing is left behind")
        elif run_id or everything:
            await remove_all(found, typer.echo)
        else:
            typer.echo("\n".join(table([("RUN", "LEFT"), *((leftover.name, leftover.what) for leftover in found)])))
            typer.echo("scaletest-runner gc --all removes it", err=True)
