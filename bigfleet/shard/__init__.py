"""The shard: the process around the engine. Sessions, reconcile, execution, rails, metrics."""

from bigfleet.shard.options import ShardOptions
from bigfleet.shard.process import serve

__all__ = ["ShardOptions", "serve"]
