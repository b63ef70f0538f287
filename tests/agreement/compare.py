"""Where two engines' decisions differ, in words."""

from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass

from bigfleet.core.needs import Need
from bigfleet.engine.decisions import Decisions

_SHOWN = 3
# What is read at once, to be carried out, and what somebody may ask for later.
ACTIONS, REPORTS = ("actions",), ("shortfalls", "views", "hints")


def differences(engine: Decisions, oracle: Decisions, parts: Sequence[str] = (*ACTIONS, *REPORTS)) -> list[str]:
    """Empty when they agree on every action, shortfall, view and hint, in order, and on what the caps put off."""
    found: list[str] = []
    for name in parts:
        found += _of_rows(name, tuple(getattr(engine, name)), tuple(getattr(oracle, name)))
    for name in ("reclaims_capped", "releases_capped", "again_at"):
        ours, theirs = getattr(engine, name), getattr(oracle, name)
        if ours != theirs:
            found.append(f"{name}: engine {ours}, oracle {theirs}")
    return found


def rows_that_differ(before: Sequence[Need], after: Sequence[Need]) -> set[int] | None:
    """What a fleet that knows a cluster's last roll-up may be told of the next; None if they are not alike."""
    if len(before) != len(after):
        return None
    return {row for row, (old, new) in enumerate(zip(before, after, strict=True)) if old != new}


def _of_rows(name: str, engine: Sequence[object], oracle: Sequence[object]) -> Iterable[str]:
    if engine == oracle:
        return []
    lines = [f"{name}: engine has {len(engine)}, oracle has {len(oracle)}"]
    for row in range(max(len(engine), len(oracle))):
        ours = engine[row] if row < len(engine) else None
        theirs = oracle[row] if row < len(oracle) else None
        if ours != theirs:
            lines += [f"  {name}[{row}]{_differing_fields(ours, theirs)}", f"    engine {ours}", f"    oracle {theirs}"]
        if len(lines) > 3 * _SHOWN:
            break
    return lines


def _differing_fields(ours: object, theirs: object) -> str:
    if ours is None or theirs is None or type(ours) is not type(theirs):
        return ""
    assert is_dataclass(ours)
    names = [f.name for f in fields(ours) if getattr(ours, f.name) != getattr(theirs, f.name)]
    return f" differs in {', '.join(names)}"
