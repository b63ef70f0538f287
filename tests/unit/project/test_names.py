"""A class name is unique in the project, so that a reader who meets one knows which it is."""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[3]
# Written by protoc; a servicer of ours is named after the service that it serves.
_GENERATED = Path("bigfleet/api/v1alpha1")


def test_a_class_name_stands_once() -> None:
    places = defaultdict(list)
    for package in ("bigfleet", "scaletest"):
        for path in sorted((ROOT / package).rglob("*.py")):
            if path.relative_to(ROOT).is_relative_to(_GENERATED):
                continue
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places[node.name].append(str(path.relative_to(ROOT)))
    assert len(places) > 700
    assert not {name: found for name, found in places.items() if len(found) > 1}
