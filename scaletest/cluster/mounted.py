"""Reads the YAML files that the chart mounts into the pods."""

from pathlib import Path
from typing import TypeVar

import yaml
from pydantic import ValidationError

from scaletest.errors import UsageError
from scaletest.model.documents.base import Document

D = TypeVar("D", bound=Document)


def read_mounted(path: Path, model: type[D]) -> D:
    """The document in `path`; what is wrong with it ends the process with one sentence."""
    try:
        return model.model_validate(yaml.safe_load(path.read_text()))
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"{path}: {field}: {first['msg']}") from error
    except (OSError, yaml.YAMLError) as error:
        raise UsageError(f"{path}: {error}") from error
