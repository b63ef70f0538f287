"""The order of whole runs: two go side by side, long ones first so that both workers end together, and the busy loops
last, when fewest are disturbed."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.scaletest.run.runner_cli import Runner

_ORDER = (
    "thread",
    "defects",
    "context",
    "up",
    "a_pod_finds_its_machine",
    "broken_hops",
    "signals",
    "calamities",
    "same_seed",
    "overload",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests of the session come here; those of other folders keep their place before these."""
    names = {item: item.path.stem.removeprefix("test_") for item in items}
    items.sort(key=lambda item: _ORDER.index(names[item]) if names[item] in _ORDER else -1)


@pytest.fixture
async def runner(tmp_path: Path) -> AsyncIterator[Runner]:
    """A user whose hosts nobody else knows."""
    made = Runner(tmp_path)
    yield made
    await made.close()
