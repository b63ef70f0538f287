"""Reads profiles, substrates and catalogs from YAML, by name or path, and says plainly what is wrong with them."""

from pathlib import Path
from typing import TypeVar

import yaml
from pydantic import ValidationError

from scaletest.errors import UsageError
from scaletest.model.base import Document
from scaletest.model.catalog import Catalog
from scaletest.model.profile import Profile
from scaletest.model.substrate import Substrate

PROJECT = Path(__file__).resolve().parents[2]
PROFILES = PROJECT / "profiles"
SUBSTRATES = PROJECT / "substrates"

D = TypeVar("D", bound=Document)


def read_profile(name: str) -> tuple[Profile, Catalog, str]:
    """A profile, its catalog, and the profile's name: `smoke`, or a path to a YAML file."""
    path = _resolve(name, PROFILES, "profile")
    profile = _read(path, Profile)
    catalog_path = path.parent / "archetypes" / f"{profile.catalog.archetypes}.yaml"
    if not catalog_path.is_file():
        known = ", ".join(sorted(entry.stem for entry in catalog_path.parent.glob("*.yaml"))) or "none"
        raise UsageError(
            f"{path}: catalog.archetypes: there is no catalog {profile.catalog.archetypes!r}",
            hint=f"catalogs beside it: {known}",
        )
    return profile, _read(catalog_path, Catalog), path.stem


def read_substrate(name: str) -> tuple[Substrate, str]:
    path = _resolve(name, SUBSTRATES, "substrate")
    return _read(path, Substrate), path.stem


def _resolve(name: str, directory: Path, what: str) -> Path:
    for candidate in (Path(name), directory / f"{name}.yaml"):
        if candidate.is_file():
            return candidate
    shipped = ", ".join(sorted(path.stem for path in directory.glob("*.yaml")))
    raise UsageError(f"there is no {what} {name!r}", hint=f"shipped: {shipped}; or give a path to a YAML file")


def _read(path: Path, model: type[D]) -> D:
    try:
        return model.model_validate(yaml.safe_load(path.read_text()))
    except yaml.YAMLError as error:
        raise UsageError(f"{path} is not valid YAML: {error}") from error
    except ValidationError as error:
        lines = [
            f"  {'.'.join(str(part) for part in item['loc']) or '(document)'}: {item['msg']}" for item in error.errors()
        ]
        raise UsageError(f"{path} is not a valid {model.__name__.lower()}:\n" + "\n".join(lines)) from error
