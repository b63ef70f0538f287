"""What holds for every test."""

import gc
import os

import pytest
from hypothesis import HealthCheck, settings

from tests.long_mode import LongMode

# How long an example takes depends on what else the machine does; no test asserts a wall-clock time.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")


# A test process has gRPC threads by and by. gRPC's care for forked copies of them ends, now and then, a child
# that was only to become another program: a host's daemon, an etcd. Nobody here uses gRPC in a forked copy.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
# pytest-xdist tells its workers how wide its own terminal is; what is printed in a test goes to no terminal.
os.environ.pop("COLUMNS", None)


def pytest_collection_finish() -> None:
    """What was imported stays to the end: no garbage collection need look at it again and again."""
    gc.collect()
    gc.freeze()


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(LongMode(config))
