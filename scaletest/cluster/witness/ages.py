"""What waits for something, and for how long the first of them has."""


class Ages:
    """Names in the order in which their wait began."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._since)

    def __contains__(self, name: str) -> bool:
        return name in self._since

    def begin(self, name: str, now: float) -> None:
        """Start a wait; a name that waits already keeps its start."""
        self._since.setdefault(name, now)

    def end(self, name: str) -> None:
        self._since.pop(name, None)

    def began(self) -> float | None:
        """When the longest wait began; None if nothing waits."""
        return next(iter(self._since.values()), None)

    def oldest_seconds(self, now: float) -> float:
        began = self.began()
        return 0.0 if began is None else max(0.0, now - began)
