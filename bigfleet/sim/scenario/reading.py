"""Reads scenario files, and says where and why one is wrong."""

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from bigfleet.errors import BigFleetError, ExitStatus
from bigfleet.sim.scenario.scenario import Scenario

SHIPPED = Path(__file__).parents[1] / "scenarios"
_LONGEST_LIST = 20


class ScenarioError(BigFleetError):
    """A scenario that cannot be used; one line for each thing that is wrong."""

    exit_code = ExitStatus.WRONG_USE


def shipped_names() -> list[str]:
    return sorted(path.stem for path in SHIPPED.glob("*.yaml"))


def read_scenario(path: Path) -> Scenario:
    """The scenario in a file; raises ScenarioError."""
    try:
        text = path.read_text()
        root = yaml.compose(text, yaml.SafeLoader)
        if root is None:
            raise ScenarioError(f"{path}: the file is empty")
        _refuse_twins(path, root)
        scenario = Scenario.model_validate(yaml.safe_load(text))
    except OSError as error:
        raise ScenarioError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ScenarioError(f"{path}: not UTF-8 text") from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ScenarioError(f"{path}:{line}: {error.problem}") from error
    except yaml.YAMLError as error:
        raise ScenarioError(f"{path}: {error}") from error
    except ValidationError as error:
        problems = [_sentence(path, root, problem) for problem in _causes(error)]
        rest = len(problems) - _LONGEST_LIST
        more = [f"and {rest} more"] if rest > 0 else []
        raise ScenarioError("\n".join([*problems[:_LONGEST_LIST], *more])) from error
    if path.parent == SHIPPED and scenario.name != path.stem:
        raise ScenarioError(f"{path}: name is {scenario.name!r}, the file is called {path.stem!r}")
    return scenario


def _causes(error: ValidationError) -> list[dict[str, Any]]:
    """What is wrong, without what follows from it: a list whose only item is bad counts as empty, too."""
    problems: list[dict[str, Any]] = [dict(problem) for problem in error.errors()]
    return [
        problem
        for problem in problems
        if problem["type"] != "too_short"
        or not any(other["loc"][: len(problem["loc"])] == problem["loc"] for other in problems if other is not problem)
    ]


def _sentence(path: Path, root: yaml.Node, problem: dict[str, Any]) -> str:
    keys = _keys(root, problem["loc"], problem["type"])
    where = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).lstrip(".")
    message = str(problem["msg"]).removeprefix("Value error, ")
    if problem["type"] == "extra_forbidden":
        message = "unknown field" + _suggestion(problem["loc"])
    elif problem["type"] == "missing":
        message = "is missing"
    elif problem["type"] in ("model_type", "model_attributes_type", "dict_type"):
        message = "must be a mapping of names to values"
    elif problem["type"] == "union_tag_invalid":
        message = f"there is no kind {problem['ctx']['tag']!r}; there are {problem['ctx']['expected_tags']}"
    elif problem["type"] == "union_tag_not_found":
        message = "kind is missing"
    return f"{path}:{_line(root, keys)}: {where + ': ' if where else ''}{message}"


def _keys(root: yaml.Node, location: Sequence[str | int], problem_type: str) -> list[str | int]:
    """The parts of a location that are in the file: pydantic adds the tag of a union, which is not."""
    keys: list[str | int] = []
    node: yaml.Node | None = root
    for index, part in enumerate(location):
        child = _child(node, part)
        if child is not None:
            keys.append(part)
            node = child
        elif index == len(location) - 1 and problem_type in ("missing", "extra_forbidden"):
            keys.append(part)
    return keys


def _child(node: yaml.Node | None, part: str | int) -> yaml.Node | None:
    if isinstance(node, yaml.MappingNode):
        return next((value for key, value in node.value if key.value == str(part)), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        item: yaml.Node = node.value[part]
        return item
    return None


def _line(root: yaml.Node, keys: Sequence[str | int]) -> int:
    node, line = root, root.start_mark.line
    for part in keys:
        if isinstance(node, yaml.MappingNode):
            line = next((key.start_mark.line for key, _ in node.value if key.value == str(part)), line)
        child = _child(node, part)
        if child is None:
            break
        if not isinstance(node, yaml.MappingNode):
            line = child.start_mark.line
        node = child
    return line + 1


def _suggestion(location: Sequence[str | int]) -> str:
    """The field of that very section whose name is closest."""
    models: list[type[BaseModel]] = [Scenario]
    for part in location[:-1]:
        if isinstance(part, int):
            continue
        inner = [found for model in models for field in _named(model, part) for found in _models(field)]
        # The tag of a union stands in the location, but is no field: it tells which of its sections is meant.
        models = inner or [model for model in models if _tag(model) == part]
    names = sorted({field.alias or "" for model in models for field in model.model_fields.values()})
    close = difflib.get_close_matches(str(location[-1]), names, n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _named(model: type[BaseModel], alias: str) -> list[FieldInfo]:
    return [field for field in model.model_fields.values() if field.alias == alias]


def _tag(model: type[BaseModel]) -> str:
    kind = model.model_fields.get("kind")
    return str(get_args(kind.annotation)[0]) if kind else ""


def _models(field: FieldInfo) -> list[type[BaseModel]]:
    found: list[type[BaseModel]] = []
    stack: list[Any] = [field.annotation]
    while stack:
        kind = stack.pop()
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            found.append(kind)
        stack += getattr(kind, "__args__", ())
    return found


def _refuse_twins(path: Path, node: yaml.Node) -> None:
    """A key that is given twice: YAML would take the last one in silence."""
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if key.value in seen:
                raise ScenarioError(f"{path}:{key.start_mark.line + 1}: {key.value}: is given twice")
            seen.add(key.value)
            _refuse_twins(path, value)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            _refuse_twins(path, value)
