"""The oracle is there to be read: every rule says where it comes from."""

import ast
import re
from pathlib import Path

import pytest

_MODULES = sorted(path for path in Path(__file__).parent.glob("*.py") if not path.name.startswith(("__", "test_")))
_SOURCE = re.compile(r"docs/reference/\w+\.md#|\b(ADR|BF)-\d")


def rules(module: Path) -> list[ast.FunctionDef]:
    """Functions that say what they do; the others are too small to need it."""
    tree = ast.parse(module.read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return [function for function in functions if not function.name.startswith("__") and ast.get_docstring(function)]


@pytest.mark.parametrize("module", _MODULES, ids=lambda path: path.stem)
def test_every_rule_cites_the_reference_or_a_decision(module: Path) -> None:
    docstring = ast.get_docstring(ast.parse(module.read_text())) or ""
    assert _SOURCE.search(docstring), f"{module.name} as a whole cites nothing"
    silent = [function.name for function in rules(module) if not _SOURCE.search(ast.get_docstring(function) or "")]
    assert silent == []


def test_the_oracle_shares_nothing_with_the_engine_but_the_words_for_its_decisions() -> None:
    imported = {
        name
        for module in _MODULES
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.ImportFrom)
        for name in [node.module or ""]
        if name.startswith("bigfleet.engine")
    }
    assert imported == {"bigfleet.engine.decisions"}
