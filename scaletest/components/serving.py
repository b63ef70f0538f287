"""How the controllers of a control plane serve their health and metrics, and dial its API."""

from scaletest.components.component import Site


def serving(site: Site, name: str, port: int) -> dict[str, object]:
    """HTTPS on the site's address; without `delegating`, only system:masters of the site's CA see more than health."""
    files = site.pki.files(name)
    return {
        "bind-address": site.address,
        "secure-port": port,
        "tls-cert-file": files.certificate,
        "tls-private-key-file": files.key,
        "client-ca-file": site.pki.ca,
    }


def delegating(site: Site, name: str) -> dict[str, object]:
    """The API decides which holders of a certificate see its metrics."""
    kubeconfig = site.pki.kubeconfig(name)
    return {
        "authentication-kubeconfig": kubeconfig,
        "authentication-skip-lookup": True,
        "authorization-kubeconfig": kubeconfig,
    }


def dialling(site: Site, name: str, qps: int, burst: int) -> dict[str, object]:
    """A client of the API that has no rival to be elected against."""
    return {
        "kubeconfig": site.pki.kubeconfig(name),
        "leader-elect": False,
        "kube-api-qps": qps,
        "kube-api-burst": burst,
        "profiling": False,
    }
