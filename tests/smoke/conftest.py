"""The order of whole runs: two go side by side, and the busy loops come last, when fewest are disturbed."""

import pytest

_ORDER = ("thread", "context", "up", "a_pod_finds_its_machine", "broken_hops", "defects", "overload")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: _ORDER.index(item.path.stem.removeprefix("test_")))
