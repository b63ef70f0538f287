"""Errors: one base for each package, the trees that the modules draw, and foreign exceptions behind their port."""

import ast
import importlib
import pkgutil
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import bigfleet
import bigfleet.errors
import scaletest
import scaletest.errors
from bigfleet.errors import BigFleetError
from scaletest.errors import ScaletestError
from scaletest.exit_codes import ExitCode

ROOT = Path(__file__).parents[3]
# Modules that run when they are imported.
_PROGRAMS = "__main__"
_DRAWN = re.compile(r"^(?P<stem>[│ ├└─]*)(?P<name>\w+) +(?P<code>\d+)\b")
_FAMILY = re.compile(r"^(?:[├└]── (?P<family>\w+)|│) +(?P<names>[\w, ]+)$")


def error_classes(package: ModuleType) -> Iterator[type[BaseException]]:
    """Every exception class that a module of the package defines."""
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if found.name.rpartition(".")[2] == _PROGRAMS:
            continue
        module = importlib.import_module(found.name)
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, BaseException) and value.__module__ == found.name:
                yield value


@pytest.mark.parametrize(("package", "base"), [(bigfleet, BigFleetError), (scaletest, ScaletestError)])
def test_every_error_of_a_package_derives_from_its_base(package: ModuleType, base: type[Exception]) -> None:
    classes = list(error_classes(package))
    assert len(classes) > 15
    strangers = [f"{one.__module__}.{one.__name__}" for one in classes if not issubclass(one, base)]
    assert not strangers


def test_the_harness_draws_its_tree_with_the_exit_codes() -> None:
    drawn, above = [], [""]
    for line in (scaletest.errors.__doc__ or "").splitlines():
        if found := _DRAWN.match(line):
            depth = len(found["stem"]) // 4
            above[depth + 1 :] = [found["name"]]
            drawn.append((above[depth], found["name"], int(found["code"])))
    real = [
        (one.__bases__[0].__name__ if one is not ScaletestError else "", one.__name__, int(one.exit_code))
        for one in vars(scaletest.errors).values()
        if isinstance(one, type) and issubclass(one, ScaletestError)
    ]
    assert drawn == real


def test_bigfleet_draws_its_families() -> None:
    drawn: dict[str, set[str]] = defaultdict(set)
    family = ""
    for line in (bigfleet.errors.__doc__ or "").splitlines():
        if found := _FAMILY.match(line):
            family = found["family"] or family
            drawn[family] |= {name.strip() for name in found["names"].split(",") if name.strip()}
    real: dict[str, set[str]] = defaultdict(set)
    for one in error_classes(bigfleet):
        if BigFleetError in one.__bases__ and not one.__name__.startswith("_"):
            real[one.__module__.split(".")[1]].add(one.__name__)
    assert drawn == real


def sources(package: str) -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted((ROOT / package).rglob("*.py")):
        yield path.relative_to(ROOT), ast.parse(path.read_text())


def test_exceptions_of_the_kubernetes_client_do_not_leave_its_port() -> None:
    importing = [
        str(path)
        for package in ("scaletest", "bigfleet")
        for path, tree in sources(package)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").startswith(("kubernetes", "urllib3"))
        and {name.name for name in node.names} & {"ApiException", "HTTPError"}
    ]
    assert set(importing) == {"scaletest/run/target/kube_api.py"}


def literal_exit_codes(tree: ast.Module) -> Iterator[int]:
    """Line numbers of an end with a plain number: sys.exit(3), SystemExit(3), typer.Exit(3), exit_code = 3."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            values = [*node.args, *(keyword.value for keyword in node.keywords)]
            if name in ("exit", "SystemExit", "Exit") and any(_is_number(value) for value in values):
                yield node.lineno
        if isinstance(node, ast.Assign) and _is_number(node.value):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            if any(name == "exit_code" or name.endswith(("_EXIT", "_INTERRUPTED")) for name in names):
                yield node.lineno


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int


def test_the_runner_ends_with_an_exit_code_that_has_a_name() -> None:
    # The supervisors in pods end with codes of their own, which have a module.
    own = {Path("scaletest/cluster/deaths.py")}
    found = [
        f"{path}:{line}" for path, tree in sources("scaletest") if path not in own for line in literal_exit_codes(tree)
    ]
    assert not found
    assert list(literal_exit_codes(ast.parse("sys.exit(1)\nclass E:\n    exit_code = 2"))) == [1, 3]
    classes = [one for one in vars(scaletest.errors).values() if isinstance(one, type) and issubclass(one, Exception)]
    assert all(type(getattr(one, "exit_code", None)) is ExitCode for one in classes)
