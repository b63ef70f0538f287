"""`program COMMAND --flags`: picks a process by name and runs it with its own options, importing nothing else."""

import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from bigfleet.errors import ExitStatus
from bigfleet.process.commandline import refuse, show_version
from bigfleet.process.flags import parse_options


@dataclass(frozen=True)
class ProcessEntry:
    """Where a process lives: `module` exposes `options` (a dataclass) and `function` (a coroutine of it).

    A process that must do something before there is an event loop names a plain function of its options as `before`;
    the coroutine then gets what it returned as well.
    """

    summary: str
    module: str
    options: str
    function: str = "serve"
    before: str = ""
    for_people: bool = False
    """What it says is read as it comes: gRPC's own log lines about servers that do not answer stay out of it."""


@dataclass(frozen=True)
class Tool:
    """A command that is no process: `module` has a `main` of its arguments that answers the exit code."""

    summary: str
    module: str


def keep_out(module: str) -> None:
    """Make this process believe that an optional dependency of its libraries is not installed."""
    sys.modules.setdefault(module, None)  # type: ignore[arg-type]  # what Python itself takes for "not to be imported"


def dispatch(
    program: str,
    processes: Mapping[str, ProcessEntry],
    arguments: Sequence[str],
    tools: Mapping[str, Tool] = MappingProxyType({}),
) -> None:
    """Run what the first argument names; exits with 2 where it names nothing."""
    commands: dict[str, ProcessEntry | Tool] = {**processes, **tools}
    name, *rest = arguments or ["--help"]
    if name in ("-h", "--help"):
        width = max(len(name) for name in commands)
        menu = "\n".join(f"  {name:<{width}}  {command.summary}" for name, command in commands.items())
        stream = sys.stdout if arguments else sys.stderr
        stream.write(f"usage: {program} COMMAND [--flags]\n\ncommands:\n{menu}\n")
        sys.exit(0 if arguments else ExitStatus.WRONG_USE)
    if name == "--version":
        show_version(program)
    if name not in commands:
        refuse(program, f"there is no command {name!r}", commands, name)
    if name in tools:
        sys.exit(importlib.import_module(tools[name].module).main(rest))
    process = processes[name]
    if process.for_people:
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # gRPC reads it when it is imported
    module = importlib.import_module(process.module)
    options = parse_options(getattr(module, process.options), f"{program} {name}", rest)
    prepared = [getattr(module, process.before)(options)] if process.before else []
    from bigfleet.process.daemon import run

    run(name, lambda: getattr(module, process.function)(options, *prepared))
