"""What all pods of a host share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from bigfleet.kube import KubeClient
from scaletest.host.addresses import Network, PodAddresses
from scaletest.host.kubelet.events import Events
from scaletest.host.kubelet.logs.logtimes import LogTimes
from scaletest.host.kubelet.network.names import PodNames
from scaletest.host.kubelet.process.isolation import Isolation
from scaletest.supervise.spawner import Spawner


@dataclass
class Runtime:
    """The means by which a pod is run."""

    host_id: str
    directory: Path
    pod_logs_dir: Path
    bin_dir: Path
    network: Network
    allocatable: Mapping[str, str]
    spawner: Spawner
    client: KubeClient
    http: aiohttp.ClientSession
    addresses: PodAddresses
    names: PodNames
    events: Events
    log_times: LogTimes = field(default_factory=LogTimes)
    # Found out by trying when the kubelet starts.
    isolation: Isolation = field(default_factory=lambda: Isolation(possible=False))
