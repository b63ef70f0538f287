"""What holds for every test."""

from hypothesis import HealthCheck, settings

# How long an example takes depends on what else the machine does; no test asserts a wall-clock time.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")
