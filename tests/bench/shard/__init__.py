"""A shard's process over real sockets."""
