"""Mutual TLS between the processes of a run: who a peer is, and what it may do."""

from bigfleet.security.credentials import GRPC_OPTIONS, channel, server_credentials
from bigfleet.security.identity import Identity, peer_identity, require

__all__ = ["GRPC_OPTIONS", "Identity", "channel", "peer_identity", "require", "server_credentials"]
