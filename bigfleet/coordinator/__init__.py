"""Slow fleet facts on an etcd member of its own: which shards there are and which domains they own."""

from bigfleet.coordinator.process import CoordinatorOptions, serve

__all__ = ["CoordinatorOptions", "serve"]
