"""When a container that ended is started again."""

_START_SECONDS = 1.0
_MAX_SECONDS = 300.0
_RESET_SECONDS = 600.0


class RestartBackoff:
    """How long to wait before the next restart: 0, then 1 s, doubled up to 5 min; afresh after a run of 10 min.

    A kubelet's, except that it starts at a tenth of a kubelet's 10 s: nothing has to be pulled here.
    """

    def __init__(self) -> None:
        self._next = 0.0

    def after(self, run_seconds: float) -> float:
        if run_seconds >= _RESET_SECONDS:
            self._next = 0.0
        delay = self._next
        self._next = min(max(delay * 2, _START_SECONDS), _MAX_SECONDS)
        return delay


def restarts(restart_policy: str, exit_code: int) -> bool:
    """Whether a container that ended like this is started again."""
    return restart_policy == "Always" or (restart_policy == "OnFailure" and exit_code != 0)
