"""The machines that the shard knows, and what it says of them by cluster."""
