"""What this machine has to give: the cores and the memory that this process may really use."""

import contextlib
import os
from pathlib import Path

from scaletest.model.documents.substrate import Host

_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def this_machine() -> Host:
    """Cores of our affinity mask; memory of the machine, or of our cgroup where that is less."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for limit in _CGROUP_LIMITS:
        with contextlib.suppress(OSError, ValueError):
            memory = min(memory, int(Path(limit).read_text()))
    return Host(v_cpu=len(os.sched_getaffinity(0)), memory_gi_b=round(memory / 2**30, 1))
