"""`check` and `replay`: old evidence, judged anew or looked at again."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from scaletest.cli.arguments import OutputOption
from scaletest.exit_codes import ExitCode

ResultsArgument = Annotated[Path, typer.Argument(metavar="DIR", help="A results folder: results/<run id>.")]


def check(results: ResultsArgument, output: OutputOption = "text") -> None:
    """Judge a results folder anew.

    By its own profile and today's gates, from its snapshot; says what changed. Ends with the exit code of that verdict.
    """
    import asyncio

    from scaletest.cli.tools import provide_toolchain
    from scaletest.report.recheck import recheck_document, recheck_lines
    from scaletest.run.offline.recheck import Evidence, Recheck, recheck

    evidence = Evidence.read(results)

    async def judge() -> Recheck:
        toolchain = await provide_toolchain(["prometheus"])
        return await recheck(evidence, toolchain.path("prometheus"))

    judged = asyncio.run(judge())
    typer.echo(json.dumps(recheck_document(judged), indent=2) if output == "json" else "\n".join(recheck_lines(judged)))
    sys.exit(judged.outcome.exit_code)


def replay(
    results: ResultsArgument,
    port: Annotated[
        int, typer.Option("--port", metavar="PORT", min=0, max=65535, help="On 127.0.0.1; 0: any that is free.")
    ] = 0,
) -> None:
    """Serve the samples of a results folder, until Ctrl-C.

    A Prometheus on loopback, from a copy: the evidence is not touched, and nothing is left.
    """
    import asyncio

    from scaletest.cli.signals import on_signals
    from scaletest.cli.tools import provide_toolchain
    from scaletest.report.recheck import replay_lines
    from scaletest.run.offline.replay import serve_snapshot, snapshot_of

    snapshot_of(results)

    async def serve() -> None:
        toolchain = await provide_toolchain(["prometheus"])
        ended = asyncio.Event()
        task = asyncio.current_task()

        def end() -> None:
            ended.set()
            if task and not serving:
                task.cancel()

        serving = False
        on_signals(end)
        async with serve_snapshot(results, toolchain.path("prometheus"), port) as url:
            serving = True
            for line in replay_lines(results, url):
                typer.echo(line)
            await ended.wait()

    try:
        asyncio.run(serve())
    except asyncio.CancelledError:
        sys.exit(ExitCode.INTERRUPTED)
