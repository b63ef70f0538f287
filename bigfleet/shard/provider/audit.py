"""The audit log: one JSON line per action, appended (docs/reference/engine.md#rails)."""

import json
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from bigfleet.engine import Action


class AuditLog:
    """Writes nothing when there is no path."""

    def __init__(self, path: Path | None) -> None:
        self._file = path.open("a", buffering=1) if path else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file:
            self._file.close()

    def record(self, cycle: int, action: Action, outcome: str) -> None:
        """`outcome` is an execution's outcome, `suppressed` or `dryrun`."""
        if not self._file:
            return
        line = {
            "time": datetime.now(UTC).isoformat(),
            "level": "INFO",
            "msg": "action",
            "cycle": cycle,
            "kind": action.kind.value,
            "machine": action.machine_id,
            "cluster": action.cluster,
            "reason": action.reason,
            "grace_seconds": action.grace_seconds,
            "outcome": outcome,
        }
        self._file.write(json.dumps(line) + "\n")
