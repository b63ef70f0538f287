"""Keeps one CapacityRequest for every Pod that is alive, bound or not (BF-0039)."""

from bigfleet.podcontroller.process import PodControllerOptions, serve

__all__ = ["PodControllerOptions", "serve"]
