"""Small scripts in the place of binaries: they report a version, as the real ones do."""

from pathlib import Path

from scaletest.toolchain.cache import Cache
from scaletest.toolchain.tools import GoTool, Module


def script(path: Path, answer: str) -> Path:
    """An executable that prints `answer` and ends well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{answer}'\n")
    path.chmod(0o755)
    return path


def pinned_greeter(directory: Path, version: str = "v1.2.3") -> dict[str, GoTool]:
    """A tool that is pinned; its module could not be built."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "go.mod").write_text(f"module m\n\ngo 1.24\n\nrequire example.org/greeter {version}\n")
    return {"greeter": GoTool("greeter", Module(directory, "example.org/greeter"), "example.org/greeter")}


def built(tool: GoTool, environ: dict[str, str], answer: str) -> Path:
    """The tool as it lies in the cache once it was built."""
    return script(Cache.of_user(environ).tool(tool.key, tool.name).path, answer)
