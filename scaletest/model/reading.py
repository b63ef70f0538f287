"""Reads profiles, substrates and catalogs from YAML, by name or path, and says plainly what is wrong with them."""

from pathlib import Path
from typing import Any, TypeVar

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


class _StrictLoader(yaml.SafeLoader):
    """Refuses a key that stands twice in one map: YAML would silently keep the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=deep)
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    problem=f"the key {key!r} stands twice", problem_mark=key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


def read_profile(name: str) -> tuple[Profile, Catalog, str]:
    """A profile, its catalog, and the profile's name: `smoke`, or a path to a YAML file."""
    path = _resolve(name, PROFILES, "profile")
    profile = _read(path, Profile)
    return profile, _read(_catalog_path(path, profile.catalog.archetypes), Catalog), path.stem


def read_substrate(name: str) -> tuple[Substrate, str]:
    path = _resolve(name, SUBSTRATES, "substrate")
    return _read(path, Substrate), path.stem


def _catalog_path(profile: Path, name: str) -> Path:
    """A catalog beside its profile wins over one that ships."""
    places = [profile.parent / "archetypes", PROFILES / "archetypes"]
    for place in places:
        if (place / f"{name}.yaml").is_file():
            return place / f"{name}.yaml"
    known = ", ".join(sorted({entry.stem for place in places for entry in place.glob("*.yaml")}))
    raise UsageError(
        f"{profile}: catalog.archetypes: there is no catalog {name!r}",
        hint=f"known: {known}; yours would be {places[0] / name}.yaml",
    )


def _resolve(name: str, directory: Path, what: str) -> Path:
    for candidate in (Path(name), directory / f"{name}.yaml"):
        if candidate.is_file():
            return candidate
    shipped = ", ".join(sorted(path.stem for path in directory.glob("*.yaml")))
    raise UsageError(f"there is no {what} {name!r}", hint=f"shipped: {shipped}; or give a path to a YAML file")


def _read(path: Path, model: type[D]) -> D:
    try:
        return model.model_validate(yaml.load(path.read_text(), Loader=_StrictLoader))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read as text: {error}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise UsageError(f"{path} is not valid YAML: {error}") from error
    except ValidationError as error:
        lines = [
            f"  {'.'.join(str(part) for part in item['loc']) or '(document)'}: {item['msg']}" for item in error.errors()
        ]
        raise UsageError(f"{path} is not a valid {model.__name__.lower()}:\n" + "\n".join(lines)) from error
