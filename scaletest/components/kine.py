"""kine: etcd's API on SQLite. It asks no client for a certificate, so it listens where only we can dial: on a file."""

from pathlib import Path

from scaletest.components.component import Component, Plane, rendered

NAME = "kine"


def socket_of(plane: Plane) -> Path:
    """The file that it listens on, and its only sign of health; a kine that was killed may leave it."""
    return plane.directory / "kine.sock"


def build(plane: Plane) -> Component:
    database = plane.directory / "kine.db"
    flags = {
        "listen-address": f"unix://{socket_of(plane)}",
        "endpoint": f"sqlite://{database}?_journal=WAL&cache=shared&_sync=OFF",
        "metrics-bind-address": 0,
    }
    return Component(NAME, rendered(flags))
