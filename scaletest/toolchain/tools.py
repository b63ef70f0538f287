"""The pinned Go tools as data: where each is built from, what its version is, and how it reports it."""

import hashlib
import platform
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from scaletest.errors import ToolchainError
from scaletest.toolchain.versions import GoVersion

_MODULES = Path(__file__).parent / "modules"
# As upstream releases are built: static, and no C compiler with its headers is needed.
BUILD_SETTINGS = {"CGO_ENABLED": "0"}


def _same_release(module_version: str) -> str:
    return module_version.removeprefix("v")


def _prometheus_release(module_version: str) -> str:
    """Prometheus publishes release 3.15.0 as Go module v0.315.0."""
    _, minor, patch = module_version.removeprefix("v").split(".")
    major, minor_of_release = divmod(int(minor), 100)
    return f"{major}.{minor_of_release}.{patch}"


@dataclass(frozen=True)
class Module:
    """A go.mod that pins one upstream project: the only place where its version is written."""

    directory: Path
    pinned_by: str
    """The required module whose version is the pin."""
    stamps: Mapping[str, str] = field(default_factory=dict)
    """Linker variables that carry the version; `{release}`, `{major}` and `{minor}` are filled in."""
    tags: str = ""
    release_of: Callable[[str], str] = _same_release

    @cached_property
    def _go_mod(self) -> str:
        return (self.directory / "go.mod").read_text()

    @cached_property
    def release(self) -> str:
        """The upstream release, without a leading v: `1.34.4`."""
        pin = re.search(rf"^(?:require)?\s+{re.escape(self.pinned_by)} (v\S+)", self._go_mod, re.MULTILINE)
        if pin is None:
            raise ToolchainError(
                f"{self.directory / 'go.mod'} does not require {self.pinned_by}, so no version is pinned"
            )
        return self.release_of(pin[1])

    @cached_property
    def minimum_go(self) -> GoVersion:
        """The oldest Go that may build this module."""
        directive = re.search(r"^go (\S+)", self._go_mod, re.MULTILINE)
        if directive is None:
            raise ToolchainError(f"{self.directory / 'go.mod'} has no go directive")
        return GoVersion.parse(directive[1])

    @cached_property
    def build_flags(self) -> tuple[str, ...]:
        """Flags of `go build`: reproducible, small, and stamped with the true version."""
        major, minor, *_ = self.release.split(".")
        stamps = [
            f"-X {variable}={value.format(release=self.release, major=major, minor=minor)}"
            for variable, value in self.stamps.items()
        ]
        linker_flags = " ".join(["-s -w", *stamps])
        return ("-trimpath", "-mod=readonly", "-buildvcs=false", f"-tags={self.tags}", f"-ldflags={linker_flags}")

    @cached_property
    def lock_digest(self) -> bytes:
        """Changes with any pinned dependency."""
        go_sum = self.directory / "go.sum"
        digest = hashlib.sha256(self._go_mod.encode())
        digest.update(go_sum.read_bytes() if go_sum.exists() else b"")
        return digest.digest()


@dataclass(frozen=True)
class GoTool:
    """One executable of a module."""

    name: str
    module: Module
    package: str
    version_args: tuple[str, ...] = ("--version",)

    @property
    def release(self) -> str:
        """The version that the binary has to report."""
        return self.module.release

    @cached_property
    def key(self) -> str:
        """Names the binary's place in the cache: the same key is the same binary."""
        settings = (f"{name}={value}" for name, value in BUILD_SETTINGS.items())
        recipe = (self.name, self.package, *self.module.build_flags, *settings, sys.platform, platform.machine())
        digest = hashlib.sha256(self.module.lock_digest)
        digest.update("\0".join(recipe).encode())
        return f"{self.name}-{self.release}-{digest.hexdigest()[:16]}"


def _kubernetes_stamps() -> dict[str, str]:
    # Both packages hold a copy: servers report the first, every client's User-Agent the second. The module proxy's
    # archive carries no commit, and "archive" is Kubernetes' own word for a tree without git.
    values = {
        "gitVersion": "v{release}",
        "gitMajor": "{major}",
        "gitMinor": "{minor}",
        "gitCommit": "unknown",
        "gitTreeState": "archive",
    }
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return {f"{package}.{variable}": value for package in packages for variable, value in values.items()}


_KUBERNETES = Module(_MODULES / "kubernetes", pinned_by="k8s.io/kubernetes", stamps=_kubernetes_stamps())
_ETCD = Module(_MODULES / "etcd", pinned_by="go.etcd.io/etcd/server/v3")
_KWOK = Module(
    _MODULES / "kwok", pinned_by="sigs.k8s.io/kwok", stamps={"sigs.k8s.io/kwok/pkg/consts.Version": "v{release}"}
)
_PROMETHEUS = Module(
    _MODULES / "prometheus",
    pinned_by="github.com/prometheus/prometheus",
    stamps={"github.com/prometheus/common/version.Version": "{release}"},
    # Every cloud's service discovery is a third of the build; the chart needs only Kubernetes'.
    tags="remove_all_sd,enable_kubernetes_sd",
    release_of=_prometheus_release,
)

GO_TOOLS: Mapping[str, GoTool] = {
    tool.name: tool
    for tool in (
        GoTool("etcd", _ETCD, "go.etcd.io/etcd/server/v3"),
        GoTool("etcdutl", _ETCD, "go.etcd.io/etcd/etcdutl/v3", version_args=("version",)),
        GoTool("kube-apiserver", _KUBERNETES, "k8s.io/kubernetes/cmd/kube-apiserver"),
        GoTool("kube-controller-manager", _KUBERNETES, "k8s.io/kubernetes/cmd/kube-controller-manager"),
        GoTool("kube-scheduler", _KUBERNETES, "k8s.io/kubernetes/cmd/kube-scheduler"),
        GoTool("kubectl", _KUBERNETES, "k8s.io/kubernetes/cmd/kubectl", version_args=("version", "--client")),
        GoTool("kwok", _KWOK, "sigs.k8s.io/kwok/cmd/kwok"),
        GoTool("prometheus", _PROMETHEUS, "github.com/prometheus/prometheus/cmd/prometheus"),
    )
}
