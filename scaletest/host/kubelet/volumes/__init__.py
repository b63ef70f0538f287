"""Volumes and claims, as directories."""
