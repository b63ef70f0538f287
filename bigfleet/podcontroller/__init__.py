"""Keeps one CapacityRequest for every Pod that is alive, bound or not (ADR-0039)."""

from bigfleet.podcontroller.process import PodControllerOptions, serve

__all__ = ["PodControllerOptions", "serve"]
