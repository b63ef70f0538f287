"""`scaletest-runner` as a user starts it, with a state folder of its own and a chart that comes up in a second."""

import asyncio
import contextlib
import os
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scaletest.host.janitor import clean_up
from scaletest.host.markers import HOST_MARKER, command_of, hosts_of_processes, marked
from scaletest.host.registry import DAEMON
from scaletest.run.journal import DiaryLine
from scaletest.run.steps.evidence import read_events
from tests.patience import eventually

# Far beyond what any of these commands takes: only a hang ends here.
HANG_SECONDS = 600
CHART = "apiVersion: v2\nname: tiny\nversion: 0.1.0\n"
# A pod with a child that hides in a session of its own; Ready after a while, and deaf to SIGTERM if asked.
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: tiny, labels: {bigfleet-scaletest-run: {{ .Values.runId | quote }}}}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: tiny}}
  template:
    metadata: {labels: {app: tiny, bigfleet-scaletest-run: {{ .Values.runId | quote }}}}
    spec:
      terminationGracePeriodSeconds: 2
      securityContext: {runAsNonRoot: true, runAsUser: 65532, seccompProfile: {type: RuntimeDefault}}
      containers:
        - name: tiny
          image: none
          command: [sh, -c, "{{ if .Values.deaf }}trap '' TERM;{{ end }} setsid sleep 600 & \\
            sleep {{ .Values.delay }}; \\
            python -m http.server 8080 --bind $(POD_IP) & wait $!"]
          env: [{name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]
          readinessProbe: {httpGet: {port: 8080}, periodSeconds: 1}
          securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: tiny-{{ .Release.Namespace }}, labels: {bigfleet-scaletest-run: {{ .Values.runId | quote }}}}
rules: []
"""


def write_chart(directory: Path) -> Path:
    (directory / "templates").mkdir(parents=True)
    (directory / "Chart.yaml").write_text(CHART)
    (directory / "values.yaml").write_text("deaf: false\ndelay: 0\nreplicas: 1\n")
    (directory / "templates" / "tiny.yaml").write_text(DEPLOYMENT)
    return directory


class Command:
    """One invocation, under way or ended."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self._process = process
        self._log = log

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def screen(self) -> str:
        return self._log.read_text()

    async def end(self, code: int | None = 0) -> str:
        """What it printed, once it has ended with this code; None: any."""
        try:
            async with asyncio.timeout(HANG_SECONDS):
                ended = await self._process.wait()
        except TimeoutError:
            self._process.kill()
            raise AssertionError(f"it hangs:\n{self.screen}") from None
        assert code in (None, ended), f"exit code {ended}, not {code}:\n{self.screen}"
        return self.screen

    def send(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)


class Runner:
    """A user's `scaletest-runner`."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.state = home / "state" / "bigfleet-scaletest"
        self.chart = write_chart(home / "chart")
        self._commands: list[Command] = []
        # Of the last `up` or run.
        self.results = home / "no results yet"

    async def close(self) -> None:
        """End what a failed test left running."""
        for command in self._commands:
            command.send(signal.SIGKILL)
            await command.end(None)
        for host_id in self.hosts():
            await asyncio.to_thread(clean_up, host_id, self.state / "hosts" / host_id)

    async def start(self, *arguments: str, **environ: str) -> Command:
        log = self.home / f"screen-{len(self._commands)}.txt"
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "scaletest.cli", *arguments),
                env=os.environ | {"XDG_STATE_HOME": str(self.home / "state")} | environ,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=asyncio.subprocess.STDOUT,
            )
        self._commands.append(Command(process, log))
        return self._commands[-1]

    async def __call__(self, *arguments: str, code: int | None = 0, **environ: str) -> str:
        return await (await self.start(*arguments, **environ)).end(code)

    async def start_up(self, *arguments: str, **environ: str) -> Command:
        """`up` with the tiny chart."""
        flags = ("--pods", "0", "--chart", str(self.chart), "--results", self._new_results())
        return await self.start("up", *flags, *arguments, **environ)

    async def start_run(self, *arguments: str, **environ: str) -> Command:
        return await self.start("--results", self._new_results(), *arguments, **environ)

    def _new_results(self) -> str:
        self.results = self.home / f"results-{len(self._commands)}"
        return str(self.results)

    def events(self) -> list[DiaryLine]:
        """The diary of the last `up` or run."""
        return read_events(self.results / "events.jsonl")

    async def reached(self, phase: str, words: str = "") -> None:
        await eventually(
            lambda: any(event["phase"] == phase and words in event["message"] for event in self.events()), HANG_SECONDS
        )

    def hosts(self) -> list[str]:
        """The ids of all hosts that have a directory."""
        return sorted(path.name for path in self.state.glob("hosts/*"))

    def processes(self, word: str = "") -> list[int]:
        """Processes of these hosts, all or those with `word` on their command line."""
        pids = [pid for host_id in self.hosts() for pid in marked(**{HOST_MARKER: host_id})]
        return [pid for pid in pids if not word or word in command_of(pid)]

    def pids_of(self, program: str) -> list[int]:
        """The processes of these hosts that are this program."""
        return [pid for pid in self.processes() if program == (command_of(pid) or [""])[0].rpartition("/")[2]]

    def runs(self, program: str) -> bool:
        return bool(self.pids_of(program))

    async def kill(self, word: str) -> None:
        """SIGKILL the process of the host with this word on its command line, as soon as there is one."""
        pids = await eventually(lambda: self.processes(word), HANG_SECONDS)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)

    async def kill_with_janitor(self) -> None:
        """SIGKILL hostd and its janitor, before the janitor can do its work."""
        [daemon] = await eventually(lambda: self.processes(DAEMON), HANG_SECONDS)
        [janitor] = await eventually(lambda: self.processes("scaletest.host.janitor"), HANG_SECONDS)
        os.kill(janitor, signal.SIGSTOP)
        os.kill(daemon, signal.SIGKILL)
        os.kill(janitor, signal.SIGKILL)

    async def helm_of(self, command: Command, verb: str) -> int:
        """The Helm process of a command, once it is there."""

        def found() -> int | None:
            return next((pid for pid in _children(command.pid) if verb in command_of(pid)[:2]), None)

        return int(await eventually(found, HANG_SECONDS))

    async def assert_nothing_is_left(self, ids: list[str]) -> None:
        """No directory, no process, no listener of any of these hosts."""
        await eventually(lambda: not self.hosts() and not ids_alive(ids), 30)
        assert not list(self.state.glob("*/*"))
        if network := self._network():
            await eventually(lambda: not listening_on(network) or _is_taken(network))

    def _network(self) -> str:
        addresses = [event["address"] for event in self.events() if "address" in event]
        return addresses[-1].rsplit(".", 2)[0] + "." if addresses else ""


def ids_alive(ids: list[str]) -> list[str]:
    alive = hosts_of_processes()
    return [host_id for host_id in ids if host_id in alive]


def _is_taken(network: str) -> bool:
    """Whether another host has claimed it, which may happen at any time once ours is gone."""
    return any(_network_of(pid) == network for pids in hosts_of_processes().values() for pid in pids)


def _network_of(pid: int) -> str:
    """The loopback network of a control-plane process, as `127.64.`; another host may have claimed ours since."""
    found = re.search(r"--bind-address=(127\.\d+\.)", " ".join(command_of(pid)))
    return found.group(1) if found else ""


def listening_on(network: str) -> list[str]:
    """`address:port` of every listener on a loopback network."""
    found = []
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, _, state, *_ = line.split()
        address = ".".join(str(part) for part in bytes.fromhex(local.partition(":")[0])[::-1])
        if state == "0A" and address.startswith(network):
            found.append(f"{address}:{int(local.partition(':')[2], 16)}")
    return found


def _children(parent: int) -> list[int]:
    def parent_of(pid: int) -> int:
        try:
            return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return 0

    return [
        int(path.name)
        for path in Path("/proc").iterdir()
        if path.name.isdecimal() and parent_of(int(path.name)) == parent
    ]


Meddle = Callable[[Runner, Command], Any]
