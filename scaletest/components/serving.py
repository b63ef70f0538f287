"""How the controllers of a control plane serve their health and metrics, and dial its API."""

from scaletest.components.component import Plane


def serving(plane: Plane, name: str, port: int) -> dict[str, object]:
    """HTTPS on the plane's address; without `delegating`, only system:masters of its CA see more than health."""
    files = plane.pki.files(name)
    return {
        "bind-address": plane.address,
        "secure-port": port,
        "tls-cert-file": files.certificate,
        "tls-private-key-file": files.key,
        "client-ca-file": plane.pki.ca,
    }


def delegating(plane: Plane, name: str) -> dict[str, object]:
    """The API decides which holders of a certificate see its metrics."""
    kubeconfig = plane.pki.kubeconfig(name)
    return {
        "authentication-kubeconfig": kubeconfig,
        "authentication-skip-lookup": True,
        "authorization-kubeconfig": kubeconfig,
    }


def dialling(plane: Plane, name: str, qps: int, burst: int) -> dict[str, object]:
    """A client of the API that has no rival to be elected against."""
    return {
        "kubeconfig": plane.pki.kubeconfig(name),
        "leader-elect": False,
        "kube-api-qps": qps,
        "kube-api-burst": burst,
        "profiling": False,
    }
