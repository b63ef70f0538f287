"""Makes the certificates of one KWOK cluster, unless a former life of its container has made them."""

from datetime import timedelta

from bigfleet.process.files import write_file
from bigfleet.security.certificates import Subject
from scaletest.components import kwok
from scaletest.components.component import Plane
from scaletest.components.issuing import IssuedIdentities, issue

_IDENTITIES = IssuedIdentities(
    authority="kwok-cluster",
    # Longer than any run; a pod's certificates die with its volume.
    lifetime=timedelta(days=7),
    clients={kwok.NAME: Subject(kwok.NAME)},
)
# Name of the file that tells which address the certificates beside it were made for; written last.
_STAMP = "made-for"


def ensure_pki(plane: Plane) -> None:
    """Keep the PKI that a former life of this container left; make a new one if there is none for this address."""
    stamp = plane.pki.directory / _STAMP
    if stamp.exists() and stamp.read_text() == plane.address and plane.pki.admin_kubeconfig.exists():
        return
    stamp.unlink(missing_ok=True)
    issue(plane, _IDENTITIES)
    write_file(stamp, plane.address.encode(), mode=0o600)
