"""The decision engine: pure, deterministic, no I/O and no clock of its own."""

from bigfleet.engine.columns.fleet import Fleet
from bigfleet.engine.decisions import (
    TRANSITION_OF,
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

__all__ = [
    "TRANSITION_OF",
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
