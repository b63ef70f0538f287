"""The identities on a host: those of any control plane, and the kubelet's."""

from datetime import timedelta
from pathlib import Path

from bigfleet.security.certificates import Subject
from scaletest.components import apiserver, controller_manager, scheduler
from scaletest.components.component import Plane
from scaletest.components.issuing import IssuedIdentities, issue
from scaletest.components.pki import Pki
from scaletest.host.addresses import Network

NODE_NAME = "embedded"
KUBELET = "kubelet"
KUBELET_USER = f"system:node:{NODE_NAME}"
# The only client that the kubelet's log server answers.
APISERVER_AS_KUBELET_CLIENT = "kube-apiserver-kubelet-client"

_APISERVER_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
_IDENTITIES = IssuedIdentities(
    authority="embedded-host",
    # Longer than any run, and than a host that was left up; the authorities and all they signed go away with the host.
    lifetime=timedelta(days=90),
    dns_names={
        apiserver.NAME: _APISERVER_NAMES,
        controller_manager.NAME: ("localhost",),
        scheduler.NAME: ("localhost",),
        KUBELET: ("localhost",),
    },
    clients={KUBELET: Subject(KUBELET_USER, groups=["system:nodes"])},
    pairs={apiserver.TO_KUBELET: Subject(APISERVER_AS_KUBELET_CLIENT)},
)


def make_plane(directory: Path, network: Network) -> Plane:
    """Where a host's control plane lives, with all credentials and the administrator's kubeconfig in place."""
    plane = Plane(network.control_plane, directory, Pki(directory / "pki", directory / "kubeconfig"))
    issue(plane, _IDENTITIES)
    return plane
