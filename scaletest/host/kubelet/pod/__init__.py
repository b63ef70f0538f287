"""One pod: its sandbox, its containers from start to end, their probes and its status."""
