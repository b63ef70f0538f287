"""The decision engine: pure, deterministic, no I/O and no clock of its own."""

from bigfleet.engine.decisions import (
    Action,
    ActionKind,
    CapacityHint,
    Decisions,
    EngineOptions,
    NeedView,
    Shortfall,
    UnmetReason,
)
from bigfleet.engine.engine import Engine
from bigfleet.engine.fleet import Fleet

__all__ = [
    "Action",
    "ActionKind",
    "CapacityHint",
    "Decisions",
    "Engine",
    "EngineOptions",
    "Fleet",
    "NeedView",
    "Shortfall",
    "UnmetReason",
]
