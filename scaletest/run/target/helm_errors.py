"""Which values an error of Helm is about."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

# `chart/templates/shard.yaml:12:34`, as template errors and `fail` have it.
_POSITION = re.compile(r"\btemplates/([\w./-]+):(\d+)")
_REFERENCE = re.compile(r"\.Values\.([\w.]+)")
_LONGEST = 160


def values_in_question(words: str, chart: Path, values: dict[str, Any], chosen: dict[str, Any]) -> list[str]:
    """`path = value` for each value that Helm's words name, directly or through the line of a template.

    Where the words name none, what the user chose is the likeliest cause.
    """
    paths = dict(_leaves(merged(_defaults(chart), values)))
    given = dict(_leaves(chosen))
    text = "\n".join([words, *_lines_named(words, chart)])
    named = [path for path in paths if re.search(rf"(?<![\w-]){re.escape(path)}(?![\w-])", text)]
    named += [path for path in _REFERENCE.findall(text) if path not in paths and not _is_branch(path, paths)]
    return [
        f"{path} = {_short(paths[path]) if path in paths else 'not set'}{' (--set)' if path in given else ''}"
        for path in dict.fromkeys(named or given)
    ]


def _defaults(chart: Path) -> dict[str, Any]:
    try:
        return yaml.safe_load((chart / "values.yaml").read_text()) or {}
    except (OSError, yaml.YAMLError):
        return {}


def _lines_named(words: str, chart: Path) -> Iterator[str]:
    for name, number in _POSITION.findall(words):
        try:
            yield (chart / "templates" / name).read_text().splitlines()[int(number) - 1]
        except (OSError, IndexError):
            continue


def _leaves(tree: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _is_branch(path: str, paths: dict[str, Any]) -> bool:
    return any(known.startswith(f"{path}.") for known in paths)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def merged(base: dict[str, Any], overrides: dict[str, Any]) -> dict[str, Any]:
    """Overrides win; maps are merged, everything else is replaced."""
    result = dict(base)
    for key, value in overrides.items():
        both_maps = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if both_maps else value
    return result
