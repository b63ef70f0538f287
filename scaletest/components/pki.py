"""Where the certificates of one control plane are: a CA for the API, another for etcd, kubeconfigs for every client."""

from dataclasses import dataclass
from pathlib import Path

from bigfleet.kube import KubeConfig
from bigfleet.security.files import KeyFiles

ETCD_CLIENT = "etcd-client"


@dataclass(frozen=True)
class Pki:
    """The files of a control plane's PKI, by the names of the programs that hold them."""

    directory: Path
    admin_kubeconfig: Path

    @property
    def ca(self) -> Path:
        return self.directory / "ca.crt"

    @property
    def etcd_ca(self) -> Path:
        return self.directory / "etcd-ca.crt"

    @property
    def service_account_key(self) -> Path:
        return self.directory / "service-account.key"

    def files(self, name: str) -> KeyFiles:
        return KeyFiles.named(self.directory, name)

    def kubeconfig(self, client: str) -> Path:
        return self.directory / f"{client}.kubeconfig"

    def admin(self) -> KubeConfig:
        return KubeConfig.from_file(self.admin_kubeconfig)

    def etcd_client(self, server: str) -> KubeConfig:
        """How to reach etcd's HTTP endpoints; it trusts another CA than the API does."""
        files = self.files(ETCD_CLIENT)
        return KubeConfig(
            server=server,
            ca_pem=self.etcd_ca.read_bytes(),
            client_cert_pem=files.certificate.read_bytes(),
            client_key_pem=files.key.read_bytes(),
        )
