"""How to reach an apiserver: a kubeconfig file, or a pod's own ServiceAccount."""

import base64
import os
import ssl
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml


@dataclass(frozen=True)
class KubeConfig:
    """An apiserver's address and the credentials for it. Secrets never show in its repr."""

    server: str
    ca_pem: bytes | None = field(default=None, repr=False)
    client_cert_pem: bytes | None = field(default=None, repr=False)
    client_key_pem: bytes | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    token_file: Path | None = None
    tls_server_name: str | None = None

    @classmethod
    def from_file(cls, path: Path) -> "KubeConfig":
        """Read the current context of a kubeconfig with certificates or a token (inline or as files)."""
        document = yaml.safe_load(path.read_text())
        by_name = {
            section: {entry["name"]: entry for entry in document.get(section) or []}
            for section in ("contexts", "clusters", "users")
        }
        context = by_name["contexts"][document["current-context"]]["context"]
        cluster = by_name["clusters"][context["cluster"]]["cluster"]
        user = by_name["users"][context["user"]]["user"]
        return cls(
            server=cluster["server"].rstrip("/"),
            ca_pem=_material(cluster, "certificate-authority", path.parent),
            client_cert_pem=_material(user, "client-certificate", path.parent),
            client_key_pem=_material(user, "client-key", path.parent),
            token=user.get("token"),
            token_file=Path(user["tokenFile"]) if "tokenFile" in user else None,
            tls_server_name=cluster.get("tls-server-name"),
        )

    @classmethod
    def from_service_account(cls, directory: Path) -> "KubeConfig":
        """Use the token and CA that a projected ServiceAccount volume put into `directory`."""
        host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
        return cls(
            server=f"https://{host}:{port}",
            ca_pem=(directory / "ca.crt").read_bytes(),
            token_file=directory / "token",
            tls_server_name="kubernetes.default.svc",
        )

    def bearer_token(self) -> str | None:
        """The token to send now: a token file is read anew, because kubelets rotate it."""
        return self.token_file.read_text().strip() if self.token_file else self.token

    def ssl_context(self) -> ssl.SSLContext | None:
        """TLS settings for an https server, None for plain http."""
        if not self.server.startswith("https://"):
            return None
        context = ssl.create_default_context(cadata=self.ca_pem.decode() if self.ca_pem else None)
        if self.client_cert_pem and self.client_key_pem:
            # The ssl module only loads a key from a file; the file lives for this one call, readable by us alone.
            with tempfile.NamedTemporaryFile(prefix="kube-client-") as pair:
                pair.write(self.client_cert_pem + b"\n" + self.client_key_pem)
                pair.flush()
                context.load_cert_chain(pair.name)
        return context


def _material(section: dict[str, Any], key: str, directory: Path) -> bytes | None:
    if f"{key}-data" in section:
        return base64.b64decode(section[f"{key}-data"])
    if key in section:
        return (directory / section[key]).read_bytes()
    return None
