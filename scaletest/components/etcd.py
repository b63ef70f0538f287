"""etcd: one member that is its whole cluster, for data that does not outlive its directory."""

from dataclasses import dataclass

from scaletest.components.component import Component, Plane, rendered

NAME = "etcd"
CLIENT_PORT = 2379
PEER_PORT = 2380


@dataclass(frozen=True)
class EtcdSettings:
    """What the harness's etcds do not have in common. Those of BigFleet's coordinators are BigFleet's to start."""

    member_name: str
    # How large the database may grow; None: etcd's own 2 GB.
    quota_bytes: int | None = None
    # Entries that are kept in memory for followers; None: etcd's own number.
    catchup_entries: int | None = None


def build(plane: Plane, settings: EtcdSettings) -> Component:
    client_url, peer_url = plane.url(CLIENT_PORT), plane.url(PEER_PORT)
    files = plane.pki.files(NAME)
    tls = {"cert-file": files.certificate, "key-file": files.key, "trusted-ca-file": plane.pki.etcd_ca}
    flags = {
        "name": settings.member_name,
        "data-dir": plane.directory / "etcd",
        "listen-client-urls": client_url,
        "advertise-client-urls": client_url,
        "listen-peer-urls": peer_url,
        "initial-advertise-peer-urls": peer_url,
        "initial-cluster": f"{settings.member_name}={peer_url}",
        "client-cert-auth": True,
        "peer-client-cert-auth": True,
        **tls,
        **{f"peer-{flag}": value for flag, value in tls.items()},
        # The data may outlive the process, never the directory: fsync would buy nothing.
        "unsafe-no-fsync": True,
        "quota-backend-bytes": settings.quota_bytes,
        "snapshot-catchup-entries": settings.catchup_entries,
        "log-level": "warn",
    }
    return Component(NAME, rendered(flags), f"{client_url}/readyz", f"{client_url}/metrics")
