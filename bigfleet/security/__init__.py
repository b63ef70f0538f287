"""Mutual TLS between the processes of a run: the identity of a peer, and what it may do.

Names are looked up when they are used: most of what lies here needs gRPC or cryptography, and a program that needs one
of them (enrolment, a KWOK cluster's control plane) should not load the other.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bigfleet.security.credentials import GRPC_OPTIONS, channel, listen
    from bigfleet.security.identity import Identity, peer_identity, require

__all__ = ["GRPC_OPTIONS", "Identity", "channel", "listen", "peer_identity", "require"]

_HOMES = {
    "GRPC_OPTIONS": "credentials",
    "channel": "credentials",
    "listen": "credentials",
    "Identity": "identity",
    "peer_identity": "identity",
    "require": "identity",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
