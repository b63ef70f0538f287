"""Processes and people that the tests start or play: apiservers, coordinators, providers, shards, operators."""
