"""`bigfleetctl`: reads the command line, runs one command, and tells what went wrong in one sentence."""

import argparse
import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bigfleet.ctl.flags import add_flags
from bigfleet.errors import ExitStatus
from bigfleet.process.commandline import Parser, end

if TYPE_CHECKING:
    from bigfleet.ctl.output import Listing

_FORMATS = ("table", "json", "yaml", "name")
# list- commands as upstream names them, and as `get` takes them.
_LISTINGS = {
    "shards": ("shards", "the registered shards"),
    "domain-assignments": ("domains", "which shard owns which topology domain"),
    "clusters": ("clusters", "the shard that each cluster belongs to"),
    "quotas": ("quotas", "how many slots of a provider each shard may use"),
    "providers": ("providers", "the known capacity providers"),
    "shard-reports": ("reports", "what each shard reported last"),
}


def main(arguments: Sequence[str] | None = None) -> None:
    end("bigfleetctl", lambda: run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """The exit code: 0 fine, 1 not done, 2 a wrong use."""
    # gRPC writes its own log lines about addresses that do not answer; we say it in ours.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    options = _parser().parse_args(arguments)
    from bigfleet.ctl.errors import CtlError

    try:
        asyncio.run(_run(options))
    except CtlError as error:
        sys.stderr.write(f"bigfleetctl: {error}\n" + (f"hint: {error.hint}\n" if error.hint else ""))
        return error.exit_code
    except KeyboardInterrupt:
        return ExitStatus.INTERRUPTED
    return 0


async def _run(options: argparse.Namespace) -> None:
    import importlib

    from bigfleet.ctl.connection import connection_of

    module, name = options.command
    command: Callable[..., Awaitable[Listing | None]]
    command = getattr(importlib.import_module(f"bigfleet.ctl.{module}"), name)
    listing = await (command(options) if options.offline else command(connection_of(options), options))
    if listing is not None:
        listing.show(options.output, headers=not options.no_headers)


def _parser() -> Parser:
    # Every command takes the connection's flags, before or after its name.
    shared = Parser(add_help=False)
    add_flags(shared, repeated=True)
    parser = Parser("bigfleetctl", description="Looks into BigFleet and changes what its coordinators keep.")
    parser.tell_version()
    add_flags(parser)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(
        where: "argparse._SubParsersAction[Parser]",
        name: str,
        command: tuple[str, str],
        text: str,
        offline: bool = False,
    ) -> Parser:
        sub = where.add_parser(name, help=text, description=text, parents=[shared])
        sub.set_defaults(command=command, offline=offline, output="table", no_headers=False)
        return sub

    def listed(sub: Parser) -> Parser:
        sub.add_argument("-o", "--output", choices=_FORMATS, default="table", help="default: table")
        sub.add_argument("--no-headers", action="store_true", help="of a table")
        return sub

    get = commands.add_parser("get", help="kubectl's way to say list-…")
    resources = get.add_subparsers(required=True, metavar="RESOURCE")
    for name, (function, text) in _LISTINGS.items():
        for where, called in ((commands, f"list-{name}"), (resources, name)):
            sub = listed(add(where, called, ("records", function), text))
            if name == "shard-reports":
                sub.add_argument("--shard", help="only this one's")
    for where in (commands, resources):
        sub = listed(add(where, "needs", ("needs", "needs"), "what clusters ask for, and what of it is unmet"))
        sub.add_argument("--cluster", help="only this one's")
        sub.add_argument("--unmet", action="store_true", help="only those that are not satisfied")
        _add_inspection(sub)
    text = "why is my pod pending? A cluster's unmet needs in plain words"
    sub = listed(add(commands, "why", ("needs", "why"), text))
    sub.add_argument("--cluster", required=True, help="the cluster that waits")
    sub.add_argument("--need", default="", help="only this one, satisfied or not: as `needs` names it, or a part")
    sub.add_argument("--all", action="store_true", help="also those that are satisfied")
    _add_inspection(sub)

    sub = add(commands, "assign-domain", ("records", "assign"), "give a topology domain to a shard")
    _add_domain(sub)
    sub.add_argument("--shard", required=True)
    _add_domain(add(commands, "unassign-domain", ("records", "unassign"), "take a topology domain from its shard"))
    sub = add(commands, "remove-shard", ("records", "remove"), "forget a shard that is no more, and all its domains")
    sub.add_argument("--shard", required=True)
    sub.add_argument("--force", action="store_true", help="also one that still reports, and so comes back")

    sub = add(commands, "set-quota", ("records", "set_quota"), "say how many slots of a provider a shard may use")
    sub.add_argument("--provider", required=True)
    sub.add_argument("--region", required=True)
    sub.add_argument("--shard", required=True)
    sub.add_argument("--slots", type=int, required=True, help="0 takes its slice away")
    sub = add(commands, "set-provider", ("records", "set_provider"), "register a capacity provider, or its new address")
    sub.add_argument("--name", required=True)
    sub.add_argument("--address", required=True, metavar="HOST:PORT")
    sub.add_argument("--region", required=True)
    add(commands, "remove-provider", ("records", "remove_provider"), "forget a capacity provider").add_argument(
        "--name", required=True
    )

    snapshot = commands.add_parser("snapshot", help="save or restore the coordinators' state")
    snapshots = snapshot.add_subparsers(required=True, metavar="COMMAND")
    sub = add(snapshots, "save", ("snapshots", "save"), "copy the state of the running leader into FILE")
    sub.add_argument("file", type=Path, metavar="FILE")
    sub.add_argument("--force", action="store_true", help="put it in the place of a file that is there")
    text = "make a snapshot the state of one stopped coordinator"
    sub = add(snapshots, "restore", ("snapshots", "restore"), text, offline=True)
    sub.add_argument("file", type=Path, metavar="FILE|DIR", help="a saved file, or an exported directory")
    sub.add_argument("--data-dir", type=Path, required=True, help="that coordinator's --data-dir")
    sub.add_argument("--node-id", required=True, help="its --id")
    sub.add_argument("--raft-advertise", required=True, metavar="HOST:PORT", help="its address in --initial-cluster")
    sub.add_argument("--etcdutl-binary", default="etcdutl", help="etcd's own tool (default: from PATH)")
    sub.add_argument("--force", action="store_true", help="put it in the place of state that is there")
    return parser


def _add_inspection(parser: Parser) -> None:
    parser.add_argument("--shard-addr", metavar="HOST:PORT", help="ask this shard, without any coordinator")
    parser.add_argument("--limit", type=int, default=0, help="rows of each shard at most; 0: all (default)")


def _add_domain(parser: Parser) -> None:
    parser.add_argument("--key", required=True, help="e.g. topology.kubernetes.io/zone")
    parser.add_argument("--value", required=True, help="e.g. zone-a")


if __name__ == "__main__":
    main()
