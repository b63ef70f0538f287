"""The loops over machines and needs: one source, compiled if `make` has built them here, plain Python otherwise."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

# In the order of their imports.
MODULES = ("pools", "chains", "domains", "sorting", "credit", "acquire", "victims")


@dataclass(frozen=True)
class Kernels:
    """The functions that the engine calls."""

    compiled: bool
    sort_by_text: Callable[..., Any]
    merge_segments: Callable[..., Any]
    folds: Callable[..., Any]
    credit: Callable[..., Any]
    credit_creating: Callable[..., Any]
    acquire: Callable[..., Any]
    victims: Callable[..., Any]


@cache
def kernels() -> Kernels:
    """Loaded at the first cycle, because that takes a second."""
    from bigfleet.engine.kernels import jit
    from bigfleet.engine.kernels.home import NotBuilt

    try:
        modules = [importlib.import_module(f"{__name__}.{name}") for name in MODULES]
    except NotBuilt:
        # What the cache has does not suit this CPU after all.
        jit.go_plain()
        modules = [importlib.reload(importlib.import_module(f"{__name__}.{name}")) for name in MODULES]
    _, _, _, sorting, credit, acquire, victims = modules
    return Kernels(
        jit.compiled(),
        sorting.sort_by_text,
        sorting.merge_segments,
        credit.folds,
        credit.credit,
        credit.credit_creating,
        acquire.acquire,
        victims.victims,
    )
