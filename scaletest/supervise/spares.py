"""Which process runs under a name, and which spare replaces it: if the harness's die, BigFleet's must not end too."""

from collections.abc import Callable, Mapping

import structlog

from scaletest.supervise.child import Child
from scaletest.supervise.children import Children
from scaletest.supervise.forks import Fork

log = structlog.get_logger(__name__)


class Understudies:
    """The processes of a group, and their spares. A process that dies is replaced while it has some left."""

    def __init__(self, processes: Mapping[str, Fork], on_start: Callable[[str], None]) -> None:
        self._current = dict(processes)
        self._spares = {name: list(process.spares) for name, process in processes.items()}
        self._started: set[str] = set()
        self._on_start = on_start

    async def join(self, children: Children) -> None:
        """Have all of them watched, the waiting ones too."""
        for name, process in self._current.items():
            for fork in (process, *self._spares[name]):
                await children.adopt(fork)

    def start(self, name: str) -> None:
        self._started.add(name)
        self._current[name].go()
        self._on_start(name)

    def survive(self, dead: Child) -> bool:
        """Whether the group goes on: it was a spare that waited, or one takes its place."""
        name, spares = dead.name, self._spares[dead.name]
        if dead.process in spares:
            spares.remove(dead.process)
            log.warning("a spare died while it waited", name=name, spares=len(spares))
            return True
        if not spares:
            return False
        self._current[name] = spares.pop(0)
        log.warning(
            "a process died, a spare takes its place", name=name, status=dead.ended.result(), spares=len(spares)
        )
        if name in self._started:
            self.start(name)
        return True
