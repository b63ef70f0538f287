"""Tests marked `long` run only with SCALETEST_LONG=1, one line each, and go on where an earlier attempt ended.

    SCALETEST_LONG=1 pytest -v -m long tests

What passed is remembered, test by test, until all have passed, or until what is tested changes.
"""

import hashlib
import os
from pathlib import Path

import pytest

_CACHE_KEY = "scaletest/long"
_ROOT = Path(__file__).parents[1]
_SOURCES = ("bigfleet", "scaletest", "chart", "profiles", "substrates")


class LongMode:
    """A pytest plugin."""

    def __init__(self, config: pytest.Config) -> None:
        self._cache = getattr(config, "cache", None)  # `-p no:cacheprovider` leaves it out
        self._wanted = bool(os.environ.get("SCALETEST_LONG"))
        self._code = code_version() if self._wanted else ""
        self._passed: set[str] = set()
        self._open: set[str] = set()

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        long = {item for item in items if item.get_closest_marker("long")}
        if self._wanted and self._cache:
            remembered = self._cache.get(_CACHE_KEY, {})
            self._passed = set(remembered.get("passed", [])) if remembered.get("code") == self._code else set()
        leaving = {item for item in long if not self._wanted or item.nodeid in self._passed}
        self._open = {item.nodeid for item in long - leaving}
        items[:] = [item for item in items if item not in leaving]
        if leaving:
            config.hook.pytest_deselected(items=list(leaving))

    def pytest_report_collectionfinish(self) -> str:
        return f"{len(self._passed)} long tests passed before, {len(self._open)} to go" if self._wanted else ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed and report.nodeid in self._open:
            self._open.discard(report.nodeid)
            self._passed.add(report.nodeid)
            self._remember()

    def pytest_sessionfinish(self) -> None:
        if self._wanted and not self._open:
            self._passed.clear()
            self._remember()

    def _remember(self) -> None:
        if self._cache:
            self._cache.set(_CACHE_KEY, {"code": self._code, "passed": sorted(self._passed)})


def code_version() -> str:
    """What is tested, as a digest: the same for the same files, committed or not."""
    digest = hashlib.sha256()
    for path in sorted(path for folder in _SOURCES for path in (_ROOT / folder).rglob("*")):
        if path.is_file() and path.suffix != ".pyc":
            digest.update(path.read_bytes())
    return digest.hexdigest()
