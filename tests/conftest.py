"""What holds for every test."""

import pytest
from hypothesis import HealthCheck, settings

from tests.long_mode import LongMode

# How long an example takes depends on what else the machine does; no test asserts a wall-clock time.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(LongMode(config))
