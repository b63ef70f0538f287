"""A pod's place on this machine: its directories, the files in them, and how each container is to be started."""

import asyncio
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bigfleet.kube import Object
from bigfleet.process.userdirs import KERNELS_VARIABLE, kernels_home
from scaletest.components import apiserver
from scaletest.host.kubelet.network.hosts import host_name, write_hosts
from scaletest.host.kubelet.network.rewrite import Rewriter
from scaletest.host.kubelet.process.isolation import Isolation, check_executable
from scaletest.host.kubelet.runtime import Runtime
from scaletest.host.kubelet.spec.environment import declared_environment
from scaletest.host.kubelet.spec.expansion import expand
from scaletest.host.kubelet.spec.payload import write_payload
from scaletest.host.kubelet.spec.references import References, Unmountable, Unresolvable
from scaletest.host.kubelet.volumes.claims import claim_directory
from scaletest.host.kubelet.volumes.volumes import PodFacts, volume_files
from scaletest.host.markers import CONTAINER_MARKER, HOST_MARKER, POD_MARKER

_TERMINATION_LOG = "/dev/termination-log"
_KEPT_VOLUMES = ("emptyDir", "persistentVolumeClaim")


@dataclass(frozen=True)
class Launch:
    """A container, ready to be executed. `rewriter` and `command` also serve what runs in it later: probes, exec."""

    argv: list[str]
    env: dict[str, str]
    cwd: Path
    rewriter: Rewriter
    # Where the container may leave a last word.
    message: Path
    isolation: Isolation
    hosts: Path
    host_name: str

    def command(self, argv: Sequence[str], stderr: int | None = None) -> list[str]:
        """How `argv` is started inside the container. Raises OSError if there is no such program."""
        check_executable(argv[0], self.env, self.cwd)
        return self.isolation.wrap(argv, hosts=self.hosts, host_name=self.host_name, stderr=stderr)


class Sandbox:
    """Directories, volumes and environments of one pod.

    `shared/<volume>` holds the emptyDirs. ConfigMaps and the like are laid out once per container, below
    `containers/<name>/volumes`, because ConfigMap text is rewritten for the mounts of its reader.
    """

    def __init__(self, runtime: Runtime, pod: Object, address: str) -> None:
        self._runtime = runtime
        self._address = address
        # The newest version: labels and annotations change.
        self.pod = pod
        self.directory: Path = runtime.directory / "pods" / pod["metadata"]["uid"]
        self._volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or []}
        self._references = References(runtime.client, pod["metadata"]["namespace"])
        self._rewriters: dict[str, Rewriter] = {}
        self._removed = False

    @property
    def _hosts(self) -> Path:
        return self.directory / "hosts"

    async def launch(self, container: Mapping[str, Any]) -> Launch:
        """Lay out the container's files and work out its command. Raises Unresolvable if something is missing."""
        if not container.get("command"):
            raise Unresolvable("the container has no command, and there is no image here to take one from")
        place = self._place_of(container)
        home, temporary = place / "home", place / "tmp"
        for directory in (home, temporary):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.refresh_hosts()
        services = {
            **self._runtime.names.environment_of(self.pod),
            "KUBERNETES_SERVICE_HOST": self._runtime.network.control_plane,
            "KUBERNETES_SERVICE_PORT": str(apiserver.PORT),
        }
        declared = await declared_environment(
            self.pod,
            container,
            self._references,
            given=services,
            pod_ip=self._address,
            host_ip=self._runtime.network.control_plane,
            allocatable=self._runtime.allocatable,
        )
        variables = {**services, **declared}
        mounts = self._mounts(container, variables)
        message = place / "termination-log"
        message.write_bytes(b"")
        last_words = container.get("terminationMessagePath", _TERMINATION_LOG)
        rewriter = Rewriter({**mounts, last_words: message}, lambda name: self._runtime.names.resolve(self.pod, name))
        self._rewriters[container["name"]] = rewriter
        await self._lay_out(container, rewriter)
        own = {
            "PATH": self._path(),
            "HOME": str(home),
            "TMPDIR": str(mounts.get("/tmp", temporary)),
            "HOSTNAME": host_name(self.pod),
            # As an image of BigFleet has it: without, a shard decides in plain Python.
            KERNELS_VARIABLE: str(kernels_home()),
        }
        rewritten = {name: rewriter.apply(value) for name, value in declared.items()}
        command = [*container["command"], *(container.get("args") or [])]
        return Launch(
            argv=[rewriter.apply(expand(part, variables)) for part in command],
            env=own | services | rewritten | self._markers(container),
            cwd=self._working_directory(container, rewriter, home),
            rewriter=rewriter,
            message=message,
            isolation=self._runtime.isolation,
            hosts=self._hosts,
            host_name=host_name(self.pod),
        )

    async def refresh(self) -> None:
        """Bring the volumes of the containers that were laid out up to date with their sources."""
        spec = self.pod["spec"]
        for container in [*(spec.get("initContainers") or []), *spec["containers"]]:
            rewriter = self._rewriters.get(container["name"])
            if rewriter:
                await self._lay_out(container, rewriter)

    def refresh_hosts(self) -> None:
        """Bring the pod's hosts file up to date."""
        if self._runtime.isolation.possible and not self._removed and self.directory.exists():
            write_hosts(self._hosts, self.pod, self._address, self._runtime.names)

    async def remove(self) -> None:
        """Take all away. A hosts file that was written meanwhile, as a name went, would hold its directory."""
        self._removed = True
        await asyncio.to_thread(shutil.rmtree, self.directory, ignore_errors=True)

    async def _lay_out(self, container: Mapping[str, Any], rewriter: Rewriter) -> None:
        facts = PodFacts(
            self.pod,
            self._address,
            self._runtime.network.control_plane,
            self._runtime.client,
            self._references,
            self._runtime.allocatable,
        )
        for name in {mount["name"] for mount in container.get("volumeMounts") or []}:
            volume = self._volumes[name]
            if not _is_kept(volume):
                files = await volume_files(volume, facts, rewriter.apply)
                write_payload(self._source(container, name), files)

    def _mounts(self, container: Mapping[str, Any], variables: Mapping[str, str]) -> dict[str, Path]:
        mounts: dict[str, Path] = {}
        for mount in container.get("volumeMounts") or []:
            source = self._source(container, mount["name"])
            below = mount.get("subPath") or expand(mount.get("subPathExpr", ""), variables)
            real = source / below if below else source
            if _is_kept(self._volumes[mount["name"]]):
                real.mkdir(mode=0o700, parents=True, exist_ok=True)
            mounts[mount["mountPath"].rstrip("/")] = real
        mounts.pop("", None)
        return mounts

    def _source(self, container: Mapping[str, Any], name: str) -> Path:
        volume = self._volumes[name]
        if "emptyDir" in volume:
            return self.directory / "shared" / name
        if "persistentVolumeClaim" in volume:
            namespace, claim = self.pod["metadata"]["namespace"], volume["persistentVolumeClaim"]["claimName"]
            directory = claim_directory(self._runtime.directory, namespace, claim)
            if not directory.is_dir():
                raise Unmountable(f'volume "{name}": claim "{claim}" has no directory on this host')
            return directory
        return self._place_of(container) / "volumes" / name

    def _place_of(self, container: Mapping[str, Any]) -> Path:
        return self.directory / "containers" / str(container["name"])

    def _path(self) -> str:
        """Commands come from this Python environment, then from the toolchain, then from the machine."""
        return ":".join(map(str, (Path(sys.executable).parent, self._runtime.bin_dir, "/usr/bin", "/bin")))

    def _markers(self, container: Mapping[str, Any]) -> dict[str, str]:
        return {
            HOST_MARKER: self._runtime.host_id,
            POD_MARKER: self.pod["metadata"]["uid"],
            CONTAINER_MARKER: str(container["name"]),
        }

    @staticmethod
    def _working_directory(container: Mapping[str, Any], rewriter: Rewriter, home: Path) -> Path:
        """The spec's directory if it is a mount or exists here, else the container's own: there is no image."""
        asked = container.get("workingDir")
        if not asked:
            return home
        directory = Path(rewriter.apply(asked))
        return directory if directory.is_dir() else home


def _is_kept(volume: Mapping[str, Any]) -> bool:
    """Whether the containers, not the kubelet, fill this volume."""
    return any(kind in volume for kind in _KEPT_VOLUMES)
