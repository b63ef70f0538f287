"""`tools`: the real binaries."""

import json
import signal
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scaletest.cli.arguments import OutputOption
from scaletest.exit_codes import ExitCode

if TYPE_CHECKING:
    from scaletest.toolchain import Cleaning, Toolchain, ToolListing, ToolRow
    from scaletest.toolchain.tools import GoTool

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

tools_app = typer.Typer(help="The real binaries: etcd, Kubernetes, kwok, Prometheus, Helm.", no_args_is_help=True)


@tools_app.command("install")
def tools_install(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Default: all.")] = None,
) -> None:
    """Build what is missing, once, into the user cache."""
    import asyncio

    asyncio.run(provide_toolchain(names or None))


@tools_app.command("list")
def tools_list(output: OutputOption = "text") -> None:
    """Name, version, origin and size of each binary; builds nothing."""
    import asyncio

    from scaletest.toolchain import ProgressDisplay, list_tools

    with ProgressDisplay(sys.stderr) as display:
        listing = asyncio.run(list_tools(display))
    typer.echo(json.dumps(listing_document(listing), indent=2) if output == "json" else "\n".join(list_lines(listing)))


@tools_app.command("path")
def tools_path(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A tool; without it the folder of all.")] = "",
) -> None:
    """Where a binary is; builds it if it is missing."""
    import asyncio

    toolchain = asyncio.run(provide_toolchain([name] if name else None))
    typer.echo(toolchain.path(name) if name else toolchain.bin_dir)


@tools_app.command("clean")
def tools_clean(
    everything: Annotated[bool, typer.Option("--all", help="Also what today's pins use.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would go.")] = False,
) -> None:
    """Remove built binaries that today's pins do not use."""
    from scaletest.toolchain import clean

    for line in clean_lines(clean(everything=everything, pretend=dry_run), pretend=dry_run):
        typer.echo(line)


async def provide_toolchain(
    names: Iterable[str] | None = None, go_tools: "Mapping[str, GoTool] | None" = None
) -> "Toolchain":
    """The named binaries, or all, built if need be, with progress on stderr; a signal leaves nothing half-built."""
    import asyncio

    from scaletest.toolchain import ProgressDisplay, ProgressNote, ensure
    from scaletest.toolchain.tools import GO_TOOLS

    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    display = ProgressDisplay(sys.stderr)
    interrupted = False

    def interrupt() -> None:
        nonlocal interrupted
        if not interrupted:
            display(ProgressNote("stopping; once more stops at once"))
        interrupted = True
        if task:
            task.cancel()

    # Under nohup a hangup is ignored, and has to stay so.
    signals = [number for number in _SIGNALS if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.getsignal(number) for number in signals}
    for number in signals:
        loop.add_signal_handler(number, interrupt)
    try:
        with display:
            return await ensure(names, display, go_tools=go_tools or GO_TOOLS)
    except asyncio.CancelledError:
        if not interrupted:
            raise
        display(ProgressNote("scaletest-runner: interrupted; built tools are kept, nothing half-built is left"))
        raise SystemExit(ExitCode.INTERRUPTED) from None
    finally:
        for number in signals:
            loop.remove_signal_handler(number)
            signal.signal(number, before[number])


async def find_helm() -> Path:
    """Helm, which comes with our own packages: nothing is built for it."""
    return (await provide_toolchain(["helm"])).path("helm")


def list_lines(listing: "ToolListing") -> list[str]:
    """A table of the tools, then what is worth knowing about where they come from."""
    rows = [("NAME", "VERSION", "FROM", "SIZE")]
    rows += [
        (tool.name, tool.version or tool.pinned, tool.source or "not built", _size(tool.size_bytes))
        for tool in listing.tools
    ]
    name, version, source, size = (max(map(len, column)) for column in zip(*rows, strict=True))
    table = [f"{row[0]:<{name}}  {row[1]:<{version}}  {row[2]:<{source}}  {row[3]:>{size}}" for row in rows]
    return [*table, "", *_remarks(listing)]


def _remarks(listing: "ToolListing") -> list[str]:
    go = listing.go
    remarks = [("wrong", _mismatch(tool)) for tool in listing.tools if tool.mismatch]
    remarks += [("used", f"{tool.path} from {tool.source}") for tool in listing.tools if _from_the_user(tool)]
    not_used = [*(entry for tool in listing.tools for entry in tool.not_used), *go.not_used]
    remarks += [("not used", str(entry)) for entry in not_used]
    if any(tool.source is None for tool in listing.tools):
        remarks.append(("missing", "`scaletest-runner tools install` builds what is not there"))
    remarks.append(("go", f"{go.version} from {go.source}{'' if go.path else ', downloaded when something is built'}"))
    remarks.append(("cache", str(listing.cache)))
    return [f"{title:<9} {text}" for title, text in remarks]


def _from_the_user(tool: "ToolRow") -> bool:
    from scaletest.toolchain.sources import Source

    return tool.source in (Source.PATH, Source.DIRECTORY)


def _mismatch(tool: "ToolRow") -> str:
    reports = f"reports version {tool.version}" if tool.version else "does not say its version"
    folder = tool.path.parent if tool.path else ""
    return f"{tool.path} {reports}, {tool.pinned} is pinned; remove {folder} and run `scaletest-runner tools install`"


def listing_document(listing: "ToolListing") -> dict[str, Any]:
    """The same for programs."""
    return {
        "tools": [
            {
                "name": tool.name,
                "pinned": tool.pinned,
                "version": tool.version,
                "mismatch": tool.mismatch,
                "source": tool.source,
                "sizeBytes": tool.size_bytes,
                "path": _text(tool.path),
                "notUsed": _not_used(tool.not_used),
            }
            for tool in listing.tools
        ],
        "go": {
            "version": listing.go.version,
            "source": listing.go.source,
            "path": _text(listing.go.path),
            "notUsed": _not_used(listing.go.not_used),
        },
        "cache": str(listing.cache),
    }


def clean_lines(cleaning: "Cleaning", *, pretend: bool) -> list[str]:
    """What went, with sizes, and the sum."""
    if not cleaning.removals:
        return [f"nothing to remove in {cleaning.root}"]
    width = max(len(removal.name) for removal in cleaning.removals)
    verb, sum_verb = ("would remove", "would free") if pretend else ("removed", "freed")
    lines = [f"{verb}  {removal.name:<{width}}  {_size(removal.size_bytes):>7}" for removal in cleaning.removals]
    return [*lines, f"{sum_verb} {_size(cleaning.freed_bytes)} in {cleaning.root}"]


def _not_used(entries: Iterable[Any]) -> list[dict[str, str | None]]:
    return [{"path": str(entry.path), "source": entry.source, "version": entry.version} for entry in entries]


def _size(size_bytes: int | None) -> str:
    if size_bytes is None:
        return "–"
    return f"{size_bytes / 1e6:.0f} MB" if size_bytes >= 1e6 else f"{size_bytes / 1e3:.0f} kB"


def _text(path: Path | None) -> str | None:
    return str(path) if path else None
