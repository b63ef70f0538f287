"""The conformance suite: is a provider, whoever wrote it, one that BigFleet can work with? Six RPCs are all it sees."""
