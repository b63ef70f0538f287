"""`tools`: the real binaries."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from scaletest.errors import UsageError

if TYPE_CHECKING:
    from scaletest.toolchain import Toolchain

tools_app = typer.Typer(help="The real binaries: etcd, Kubernetes, kwok, Prometheus, Helm.", no_args_is_help=True)


@tools_app.command("install")
def tools_install() -> None:
    """Build what is missing, once, into the user cache."""
    import asyncio

    asyncio.run(provide_toolchain())


@tools_app.command("list")
def tools_list() -> None:
    """Name, version, origin and size of each binary."""
    import asyncio

    from scaletest.toolchain import list_tools

    for row in asyncio.run(list_tools()):
        size = f"{row.size_bytes / 1e6:.0f} MB" if row.size_bytes else "–"
        typer.echo(f"{row.name:<24} {row.version:<10} {row.source or 'not built':<12} {size:>7}  {row.path or ''}")


@tools_app.command("path")
def tools_path(name: Annotated[str, typer.Argument(help="A tool's name; without it the folder of all.")] = "") -> None:
    """Where a binary is."""
    import asyncio

    from scaletest.toolchain import TOOL_NAMES

    if name and name not in TOOL_NAMES:
        raise UsageError(f"there is no tool {name!r}", hint=f"the tools are {', '.join(TOOL_NAMES)}")
    toolchain = asyncio.run(provide_toolchain())
    typer.echo(toolchain.path(name) if name else toolchain.bin_dir)


async def provide_toolchain() -> "Toolchain":
    """Every binary, built if need be, with progress on stderr."""
    from scaletest.toolchain import Display, ensure

    with Display(sys.stderr) as display:
        return await ensure(progress=display)
