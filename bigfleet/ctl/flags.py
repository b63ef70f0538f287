"""The flags that every command takes: where the coordinators are, and which certificate we show."""

import argparse
from pathlib import Path

DEFAULT_COORDINATOR = "127.0.0.1:7790"


def add_flags(parser: argparse.ArgumentParser, *, repeated: bool = False) -> None:
    """The flags of every command. `repeated`: behind a command's name, where they only count when they are given."""
    group = parser.add_argument_group("connection")

    def default(value: object) -> object:
        return argparse.SUPPRESS if repeated else value

    group.add_argument(
        "--coordinator",
        metavar="HOST:PORT[,…]",
        default=default(None),
        help=f"one coordinator or several; any of them will do (BIGFLEET_COORDINATOR, else {DEFAULT_COORDINATOR})",
    )
    group.add_argument(
        "--timeout", type=_seconds, default=default(10.0), metavar="10s", help="of each call (default: 10s)"
    )
    group.add_argument(
        "--tls-dir",
        type=Path,
        default=default(None),
        metavar="DIR",
        help="tls.crt, tls.key and ca.crt (BIGFLEET_TLS_DIR)",
    )
    for name, what in (("cert", "our certificate"), ("key", "its private key"), ("ca", "the CA that servers are of")):
        group.add_argument(
            f"--tls-{name}",
            type=Path,
            default=default(None),
            metavar="FILE",
            help=f"{what}; all three, or --tls-dir",
        )
    group.add_argument(
        "--plaintext",
        action="store_true",
        default=default(False),
        help="without TLS; only for servers that run without",
    )


def _seconds(text: str) -> float:
    scale = {"ms": 0.001, "s": 1.0, "m": 60.0}
    unit = next((unit for unit in scale if text.endswith(unit)), "")
    try:
        seconds = float(text.removesuffix(unit)) * scale.get(unit, 1.0)
    except ValueError:
        seconds = 0
    if not 0 < seconds < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 500ms, 10s or 2m")
    return seconds
