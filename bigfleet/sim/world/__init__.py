"""The simulated world in virtual time: clusters, provider, a shard with the real engine, faults, a recorder."""
