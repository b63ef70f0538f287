"""Scenarios: read from YAML, checked, and built into a world."""
