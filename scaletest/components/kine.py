"""kine: etcd's API on SQLite. It asks no client for a certificate, so it listens where only we can dial: on a file."""

from pathlib import Path

from scaletest.components.component import Component, Site, rendered

NAME = "kine"


def socket_of(site: Site) -> Path:
    """The file that it listens on, and its only sign of health; a kine that was killed may leave it."""
    return site.directory / "kine.sock"


def build(site: Site) -> Component:
    database = site.directory / "kine.db"
    flags = {
        "listen-address": f"unix://{socket_of(site)}",
        "endpoint": f"sqlite://{database}?_journal=WAL&cache=shared&_sync=OFF",
        "metrics-bind-address": 0,
    }
    return Component(NAME, rendered(flags))
