"""Machines that were bought and that no cluster was given. Pure."""

# A shard that has waited for a machine gives it to a cluster in its next cycle or two.
USED_WITHIN_SECONDS = 30.0


class Unused:
    """Machines since their Create has ended, oldest first. Times are the caller's, on one clock."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}
        # Bought for nothing, so far.
        self.count = 0

    def bought(self, machine_id: str, now: float) -> None:
        self._since[machine_id] = now

    def taken(self, machine_id: str) -> None:
        """It was given to a cluster, or lost."""
        self._since.pop(machine_id, None)

    def given_back(self, machine_id: str) -> None:
        if self._since.pop(machine_id, None) is not None:
            self.count += 1

    def look(self, now: float) -> None:
        """Count those whose time is over, each once."""
        while self._since:
            machine_id, since = next(iter(self._since.items()))
            if since > now - USED_WITHIN_SECONDS:
                return
            del self._since[machine_id]
            self.count += 1
