"""Profiles of the tests' own: written beside the archetypes of smoke."""

from pathlib import Path
from typing import Any

import yaml

from scaletest.project import PROFILES


def like_smoke() -> dict[str, Any]:
    """The smoke profile, to be changed."""
    return dict(yaml.safe_load((PROFILES / "smoke.yaml").read_text()))


def write_profile(directory: Path, name: str, profile: dict[str, Any]) -> Path:
    """The file for `--profile`."""
    (directory / "archetypes").mkdir(exist_ok=True)
    (directory / "archetypes" / "smoke.yaml").write_text((PROFILES / "archetypes" / "smoke.yaml").read_text())
    path = directory / f"{name}.yaml"
    path.write_text(yaml.safe_dump(profile))
    return path
