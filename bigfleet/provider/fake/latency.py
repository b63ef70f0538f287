"""How long a fake transition takes: a log-normal distribution, named by its median and its 99th percentile."""

import math
from dataclasses import dataclass
from random import Random

_Z99 = 2.3263478740408408  # the standard normal's 99th percentile


@dataclass(frozen=True)
class Latency:
    """Seconds. Equal median and p99 is a constant."""

    median_seconds: float
    """Half of them take less; 0: none takes any time."""
    p99_seconds: float
    """99 of 100 take less."""

    def __post_init__(self) -> None:
        if not 0 <= self.median_seconds <= self.p99_seconds < math.inf:
            raise ValueError(
                f"a latency needs 0 ≤ median ≤ p99, not median {self.median_seconds:g} and p99 {self.p99_seconds:g}"
            )
        if self.median_seconds == 0 < self.p99_seconds:
            raise ValueError("a latency whose median is 0 is always 0: its p99 must be 0 too")

    def sample(self, random: Random) -> float:
        if self.median_seconds == self.p99_seconds:
            return self.median_seconds
        sigma = math.log(self.p99_seconds / self.median_seconds) / _Z99
        return self.median_seconds * math.exp(sigma * random.gauss())


@dataclass(frozen=True)
class Latencies:
    """One distribution per transition. Create and configure together boot a machine within 4 s (p99)."""

    create: Latency = Latency(0.5, 2.0)
    configure: Latency = Latency(0.3, 1.0)
    drain: Latency = Latency(0.3, 1.0)
    delete: Latency = Latency(0.3, 1.0)
