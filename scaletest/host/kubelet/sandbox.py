"""A pod's place on this machine: its directories, the files in them, and how each container is to be started."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bigfleet.kube import Object
from scaletest.host.addresses import APISERVER_PORT
from scaletest.host.kubelet.environment import declared_environment
from scaletest.host.kubelet.expansion import expand
from scaletest.host.kubelet.references import References, Unresolvable
from scaletest.host.kubelet.rewrite import Rewriter
from scaletest.host.kubelet.runtime import Runtime
from scaletest.host.kubelet.volumes import PodFacts, volume_files, write_files
from scaletest.host.markers import CONTAINER_MARKER, HOST_MARKER, POD_MARKER


@dataclass(frozen=True)
class Launch:
    """A container, ready to be executed. `rewriter` is for commands that run in it later: exec probes."""

    argv: list[str]
    env: dict[str, str]
    cwd: Path
    rewriter: Rewriter


class Sandbox:
    """Directories, volumes and environments of one pod.

    `shared/<volume>` holds the emptyDirs. All other volumes are laid out once per container, below
    `containers/<name>/volumes`, because ConfigMap text is rewritten for the mounts of its reader.
    """

    def __init__(self, runtime: Runtime, pod: Object, address: str) -> None:
        self._runtime = runtime
        self._pod = pod
        self._address = address
        self.directory: Path = runtime.directory / "pods" / pod["metadata"]["uid"]
        self._volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or []}
        references = References(runtime.client, pod["metadata"]["namespace"])
        self._facts = PodFacts(pod, address, runtime.network.control_plane, runtime.client, references)
        self._rewriters: dict[str, Rewriter] = {}

    async def launch(self, container: Mapping[str, Any]) -> Launch:
        """Lay out the container's files and work out its command. Raises Unresolvable if something is missing."""
        if not container.get("command"):
            raise Unresolvable("the container has no command, and there is no image here to take one from")
        home = self._place_of(container) / "home"
        temporary = self._place_of(container) / "tmp"
        for directory in (home, temporary):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        services = {
            "KUBERNETES_SERVICE_HOST": self._runtime.network.control_plane,
            "KUBERNETES_SERVICE_PORT": str(APISERVER_PORT),
        }
        declared = await declared_environment(
            self._pod,
            container,
            self._facts.references,
            given=services,
            pod_ip=self._address,
            host_ip=self._facts.host_ip,
            allocatable=self._runtime.allocatable,
        )
        variables = {**services, **declared}
        mounts = self._mounts(container, variables)
        rewriter = Rewriter(
            mounts, lambda name: self._runtime.names.resolve(self._pod, name), apiserver_port=APISERVER_PORT
        )
        self._rewriters[container["name"]] = rewriter
        await self._lay_out(container, rewriter)
        own = {
            "PATH": self._path(),
            "HOME": str(home),
            "TMPDIR": str(mounts.get("/tmp", temporary)),
            "HOSTNAME": self._pod["metadata"]["name"],
        }
        rewritten = {name: await rewriter.apply(value) for name, value in declared.items()}
        command = [*container["command"], *(container.get("args") or [])]
        return Launch(
            argv=[await rewriter.apply(expand(part, variables)) for part in command],
            env=own | services | rewritten | self._markers(container),
            cwd=await self._working_directory(container, rewriter, home),
            rewriter=rewriter,
        )

    async def refresh(self) -> None:
        """Bring the volumes of the containers that were laid out up to date with their sources."""
        spec = self._pod["spec"]
        for container in [*(spec.get("initContainers") or []), *spec["containers"]]:
            rewriter = self._rewriters.get(container["name"])
            if rewriter:
                await self._lay_out(container, rewriter)

    async def _lay_out(self, container: Mapping[str, Any], rewriter: Rewriter) -> None:
        for name in {mount["name"] for mount in container.get("volumeMounts") or []}:
            volume = self._volumes[name]
            if "emptyDir" not in volume:
                write_files(self._source(container, name), await volume_files(volume, self._facts, rewriter.apply))

    def _mounts(self, container: Mapping[str, Any], variables: Mapping[str, str]) -> dict[str, Path]:
        mounts: dict[str, Path] = {}
        for mount in container.get("volumeMounts") or []:
            source = self._source(container, mount["name"])
            below = mount.get("subPath") or expand(mount.get("subPathExpr", ""), variables)
            real = source / below if below else source
            if "emptyDir" in self._volumes[mount["name"]]:
                real.mkdir(mode=0o700, parents=True, exist_ok=True)
            mounts[mount["mountPath"].rstrip("/")] = real
        mounts.pop("", None)
        return mounts

    def _source(self, container: Mapping[str, Any], volume: str) -> Path:
        if "emptyDir" in self._volumes[volume]:
            return self.directory / "shared" / volume
        return self._place_of(container) / "volumes" / volume

    def _place_of(self, container: Mapping[str, Any]) -> Path:
        return self.directory / "containers" / str(container["name"])

    def _path(self) -> str:
        """Commands come from this Python environment, then from the toolchain, then from the machine."""
        return ":".join(map(str, (Path(sys.executable).parent, self._runtime.bin_dir, "/usr/bin", "/bin")))

    def _markers(self, container: Mapping[str, Any]) -> dict[str, str]:
        return {
            HOST_MARKER: self._runtime.host_id,
            POD_MARKER: self._pod["metadata"]["uid"],
            CONTAINER_MARKER: str(container["name"]),
        }

    async def _working_directory(self, container: Mapping[str, Any], rewriter: Rewriter, home: Path) -> Path:
        """The spec's directory if it is a mount or exists here, else the container's own: there is no image."""
        asked = container.get("workingDir")
        if not asked:
            return home
        directory = Path(await rewriter.apply(asked))
        return directory if directory.is_dir() else home
