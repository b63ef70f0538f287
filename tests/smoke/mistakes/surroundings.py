"""What happens to a run from outside: some of it must fail it, some must make it void, and some it must survive."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from scaletest.host.markers import POD_MARKER
from scaletest.toolchain import ensure
from tests.smoke.mistakes.entry import SOAK_MARKER, Entry, Meddle
from tests.smoke.runs import LiveRun

_NAMESPACE = "bigfleet-scaletest"
_LOAD_MISSING = "load did not come"
# Long enough for the first cycles, losses and deletions of the soak.
_EARLY_SECONDS = 15.0


async def begin_in_soak(live: LiveRun) -> None:
    """Let a mistake bite that waits for the soak."""
    await live.reached("soak")
    (live.checkout / "bigfleet" / SOAK_MARKER).touch()


def _in_soak(act: Callable[[LiveRun], Awaitable[None]], after_seconds: float = _EARLY_SECONDS) -> Meddle:
    async def meddle(live: LiveRun) -> None:
        await live.reached("soak")
        await asyncio.sleep(after_seconds)
        await act(live)

    return meddle


def _stop(command: str, seconds: float) -> Callable[[LiveRun], Awaitable[None]]:
    """SIGSTOP one process of a cluster for so long."""

    async def act(live: LiveRun) -> None:
        with _stopped(_of_clusters(live, command)[0]):
            await asyncio.sleep(seconds)

    return act


async def _kill_node_creator(live: LiveRun) -> None:
    os.kill(_of_clusters(live, "node-creator")[0], signal.SIGKILL)


def _delete_pod(name: str) -> Callable[[LiveRun], Awaitable[None]]:
    async def act(live: LiveRun) -> None:
        kubectl = (await ensure(["kubectl"])).path("kubectl")
        process = await asyncio.create_subprocess_exec(
            *(str(kubectl), f"--kubeconfig={live.kubeconfig()}", "-n", _NAMESPACE),
            *("delete", "pod", name, "--wait=false"),
            stdout=asyncio.subprocess.DEVNULL,
        )
        if code := await process.wait():
            raise RuntimeError(f"kubectl delete pod {name} ended with {code}")

    return act


async def _silence_load_drivers(live: LiveRun) -> None:
    """Stop them as soon as they exist, so that the demand is never asked for."""
    await live.reached("install")
    stopped: set[int] = set()
    while len(stopped) < 2:
        for pid in set(live.processes("load-driver")) - stopped:
            os.kill(pid, signal.SIGSTOP)
            stopped.add(pid)
        await asyncio.sleep(0.05)


def _of_clusters(live: LiveRun, command: str) -> list[int]:
    """Processes of KWOK clusters that are called so, in the order of pids: not those that carry the host itself."""
    found = [pid for pid in live.processes(command) if _is_in_a_pod(pid)]
    if not found:
        raise LookupError(f"no {command} runs in any pod")
    return sorted(found)


def _is_in_a_pod(pid: int) -> bool:
    with suppress(OSError):
        return f"{POD_MARKER}=".encode() in Path(f"/proc/{pid}/environ").read_bytes()
    return False


@contextmanager
def _stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


SURROUNDINGS: list[Entry] = [
    Entry(
        "the shard's pod is deleted in the soak",
        "shard",
        gates=frozenset({"containerRestartsDuringSoak"}),
        meddle=_in_soak(_delete_pod("bigfleet-shard-0")),
    ),
    Entry(
        "one of two load-drivers stops in mid-soak",
        "",
        (6,),
        sentence=_LOAD_MISSING,
        meddle=_in_soak(_stop("load-driver", 600), after_seconds=30),
    ),
    Entry(
        "kube-controller-manager of one cluster stops for 40 of 60 seconds",
        "",
        (6,),
        sentence=_LOAD_MISSING,
        seconds=60,
        meddle=_in_soak(_stop("kube-controller-manager", 40), after_seconds=10),
    ),
    Entry("the demand is never asked for", "", (3,), sentence="demand is not built", meddle=_silence_load_drivers),
    # From here on nothing is wrong with BigFleet, and the load comes.
    Entry("nothing is wrong", "", (0,)),
    Entry("nothing is wrong, with a step and a shed", "", (0,), seconds=None),
    Entry("a load-driver stops for 9 seconds", "", (0,), meddle=_in_soak(_stop("load-driver", 9))),
    Entry("the issuer's pod is deleted in the soak", "", (0,), meddle=_in_soak(_delete_pod("bigfleet-issuer-0"))),
    Entry("a node-creator is killed in the soak", "", (0,), meddle=_in_soak(_kill_node_creator)),
]
